"""OpenAI's Batch API in front of OfflineJobs."""
