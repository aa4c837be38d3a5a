"""Asks one thing and prints the answer as it streams: how a plain program uses the SDK. Runs in the SDK's own environment."""

import sys

import anthropic

model, prompt = sys.argv[1:]
with anthropic.Anthropic().messages.stream(model=model, max_tokens=100, messages=[{"role": "user", "content": prompt}]) as stream:
    for text in stream.text_stream:
        sys.stdout.write(text)
    message = stream.get_final_message()
sys.stdout.write(f"\nstopped: {message.stop_reason}, tokens {message.usage.output_tokens}\n")
