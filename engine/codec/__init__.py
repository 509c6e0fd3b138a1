"""The causal codec: speech <-> codes. `engine.codec.codec.Codec` is the way in."""
