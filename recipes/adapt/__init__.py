"""An imported or own model, adapted to a domain."""
