"""Where models come from: package indexes, model hubs, web servers, files."""
