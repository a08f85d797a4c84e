"""The damped pendulum, the proving ground of the paper."""
