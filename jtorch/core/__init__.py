"""What everything stands on; imports nothing else of jtorch."""
