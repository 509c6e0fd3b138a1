// Speaks a long text and prints a line of JSON for each event, then how it ended.
//   node listen.js PATH/kingfisher.js ws://127.0.0.1:8000/v1/tts/live

const { Client } = await import(process.argv[2]);

const client = new Client(process.argv[3]);
const say = (line) => console.log(JSON.stringify(line));
try {
  const text = "This sentence belongs to a long story that nobody will hear to its end. ".repeat(40);
  for await (const event of client.speak(text, { format: "pcm", max_lead_s: 0.5 })) {
    say({ type: event.type ?? "audio" });
  }
  say({ type: "end" });
} catch (error) {
  say({ type: "error", name: error.constructor.name });
}
client.close();
