"""The devices of a node: kinds of them, what each is made from, and what is known of each."""
