"""The devices and machines to train on, for both backends."""
