"""The images: what they are made of, how they are built, and what is dropped."""
