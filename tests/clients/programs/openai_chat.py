"""Asks one thing by Chat Completions and prints the answer as it streams. Runs in the SDK's own environment."""

import sys

import openai

model, prompt = sys.argv[1:]
finished = None
for chunk in openai.OpenAI().chat.completions.create(model=model, messages=[{"role": "user", "content": prompt}], stream=True):
    for choice in chunk.choices:
        sys.stdout.write(choice.delta.content or "")
        finished = choice.finish_reason or finished
sys.stdout.write(f"\nstopped: {finished}\n")
