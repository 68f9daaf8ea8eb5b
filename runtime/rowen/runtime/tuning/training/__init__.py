"""How a job learns: TRL's trainer, and what it tells and keeps meanwhile."""
