"""What is counted and measured, for dashboards and alerts. Few values an attribute, and never any content."""
