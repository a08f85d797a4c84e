"""What is done with finished maps: accuracy, samples, statistics, change, filters."""
