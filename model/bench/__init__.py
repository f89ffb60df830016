"""Measuring: what `tx bench` and the scripts of tests/bench have in common. Nothing else of the package imports it.

machine     what is measured on           sentences   what is measured with
worker      the program of a child that translates; child talks to it
programs    the same for other translators, run by any Python that has them; peers finds those
marian      a random model in the format of Hugging Face, which all of them can run
measure     rounds, medians, quartiles    run         `tx bench` itself
"""
