"""Bring-your-own-voice hooks of hosted agent platforms: jambonz, Vapi, Tencent TRTC."""
