"""Checks of whole programs: ``python -m flydsl.runtime check``, and the plugin of pytest.

``findings`` reads what the simulator recorded, ``hints`` says what to do about it, ``reports`` writes text, JSON and
SARIF, ``command`` runs programs, ``pytest_plugin`` makes findings failures of tests.
"""
