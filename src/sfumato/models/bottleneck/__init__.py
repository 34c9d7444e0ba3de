"""The information bottleneck."""
