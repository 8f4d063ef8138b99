"""Flags that several verbs have, and what they make of them."""
