"""Asks one thing by Responses and prints the answer as it streams. Runs in the SDK's own environment."""

import sys

import openai

model, prompt = sys.argv[1:]
ended = None
for event in openai.OpenAI().responses.create(model=model, input=prompt, stream=True):
    if event.type == "response.output_text.delta":
        sys.stdout.write(event.delta)
    elif event.type in ("response.completed", "response.incomplete", "response.failed"):
        ended = event.response.status
sys.stdout.write(f"\nstopped: {ended}\n")
