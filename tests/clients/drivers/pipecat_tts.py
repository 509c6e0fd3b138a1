"""Pipecat's services in a pipeline: turns, a barge-in by interruption, word times where the service has them.

`python pipecat_tts.py URL FOLDER SERVICE [--wrong-key]`
"""

import asyncio
import sys

from outcome import LONG, TEXTS, Outcome
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    EndFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineParams, PipelineTask
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

RATE_HZ = 24_000
QUIET_S = 2.5
DEADLINE_S = 60

outcome = Outcome()


def make(name: str, key: str = "k") -> FrameProcessor:
    url, socket = outcome.url, outcome.socket_url
    match name:
        case "fish":
            from pipecat.services.fish.tts import FishAudioTTSService

            service = FishAudioTTSService(api_key=key, settings=FishAudioTTSService.Settings(voice="willow"))
            service._base_url = socket + "/v1/tts/live"  # the service has no argument for it
            return service
        case "elevenlabs":
            from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

            return ElevenLabsTTSService(api_key=key, voice_id="willow", url=socket)
        case "cartesia":
            from pipecat.services.cartesia.tts import CartesiaTTSService

            return CartesiaTTSService(api_key=key, voice_id="willow", url=socket + "/tts/websocket")
        case "deepgram":
            from pipecat.services.deepgram.tts import DeepgramTTSService

            return DeepgramTTSService(api_key=key, voice="willow", base_url=socket)
        case _:
            from pipecat.services.openai.tts import OpenAITTSService

            return OpenAITTSService(api_key=key, voice="alloy", base_url=url + "/v1")


class Ear(FrameProcessor):
    """In front of the service: errors go up the pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.error: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, ErrorFrame) and not self.error.done():
            self.error.set_result(frame.error)
        await self.push_frame(frame, direction)


class Sink(FrameProcessor):
    def __init__(self) -> None:
        super().__init__()
        self.sound = bytearray()
        self.words: list[str] = []
        self.came = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.sound += frame.audio
            self.came.set()
        elif isinstance(frame, TTSTextFrame):
            self.words.append(frame.text)
        elif isinstance(frame, TTSStoppedFrame):
            # As an output transport says it: some services wait for this before their next turn.
            await self.push_frame(BotStoppedSpeakingFrame(), FrameDirection.UPSTREAM)
        await self.push_frame(frame, direction)

    async def take(self) -> bytes:
        """The sound up to a longer quiet."""
        async with asyncio.timeout(DEADLINE_S):
            await self.came.wait()
            while self.came.is_set():
                self.came.clear()
                try:
                    await asyncio.wait_for(self.came.wait(), QUIET_S)
                except TimeoutError:
                    break
        sound, self.sound = bytes(self.sound), bytearray()
        return sound


async def say(task: PipelineTask, text: str) -> None:
    words = [LLMTextFrame(word + " ") for word in text.split(" ")]
    await task.queue_frames([LLMFullResponseStartFrame(), *words, LLMFullResponseEndFrame()])


async def main() -> None:
    sink = Sink()
    pipeline = Pipeline([make(sys.argv[3]), sink])
    task = PipelineTask(pipeline, params=PipelineParams(audio_out_sample_rate=RATE_HZ))
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    await say(task, TEXTS[0])
    outcome.turn(await sink.take(), f"pcm{RATE_HZ}")
    words, sink.words = sink.words, []
    await say(task, LONG)
    await asyncio.wait_for(sink.came.wait(), DEADLINE_S)
    await task.queue_frame(InterruptionFrame())
    await asyncio.sleep(1.0)  # what is under way in the pipeline is dropped by then
    sink.sound.clear(), sink.came.clear()
    await say(task, TEXTS[1])  # the turn after the barge-in, with nothing stale in front
    outcome.turn(await sink.take(), f"pcm{RATE_HZ}")
    outcome.note(words=words)
    await task.queue_frame(EndFrame())
    await asyncio.wait_for(running, DEADLINE_S)
    outcome.tell()


async def refused() -> None:
    ear = Ear()
    task = PipelineTask(Pipeline([ear, make(sys.argv[3], key="wrong"), Sink()]))
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    await say(task, "Hello there.")
    outcome.note(error=await asyncio.wait_for(ear.error, DEADLINE_S))
    await task.cancel()
    await asyncio.wait_for(running, DEADLINE_S)
    outcome.tell()


asyncio.run(refused() if "--wrong-key" in sys.argv else main())
