"""The devices and machines of a training, for both backends."""
