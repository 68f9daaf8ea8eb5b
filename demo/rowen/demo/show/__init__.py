"""What a run looks like: live, as a report, as a picture."""
