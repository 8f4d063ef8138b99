"""CTranslate2 models."""
