"""Jobs for several machines, on Ray."""
