"""What a job asks for, and the search for a place."""
