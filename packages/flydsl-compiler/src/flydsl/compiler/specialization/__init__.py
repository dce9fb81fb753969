"""What a call asks for: signature, arguments, environment, and the key of the specialisation that serves it."""
