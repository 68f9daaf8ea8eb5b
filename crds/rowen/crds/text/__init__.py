"""Texts and numbers as fields hold them."""
