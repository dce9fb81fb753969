"""What the tools that bump versions and release them know of changelogs."""

UNRELEASED = "## Unreleased"  # heading of what the next version will have
PLACEHOLDER = "describe the change here"  # an entry that says nothing yet
