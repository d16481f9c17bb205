"""What runs wakeful: the application, the server, several processes on one port, the forecast."""
