"""Generated from the models: schemas, custom resource definitions and the reference."""
