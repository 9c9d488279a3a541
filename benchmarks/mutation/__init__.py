"""The parts of `benchmarks/mutants.py`: what is changed, which tests are asked, and how they are run."""
