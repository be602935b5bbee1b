"""Side by side measurements of rolltape and the real lerobot, in one run on one machine: `python -m benchmarks`."""
