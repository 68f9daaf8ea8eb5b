"""Files and folders in object storage and on the Hugging Face hub, by fsspec."""
