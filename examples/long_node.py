"""A long node that continues after a crash: checkpoints inside one node.

After a crash a node starts again, and `ol.last_checkpoint()` returns how far it had come. `ol.progress` is for
display; it is cheap and not durable.
"""

import asyncio

import outlast as ol


@ol.node
async def count_words(pages: list[str]) -> int:
    done = ol.last_checkpoint({"page": 0, "words": 0})
    for number in range(done["page"], len(pages)):
        await asyncio.sleep(0.05)  # imagine a page that takes a while to read
        done = {"page": number + 1, "words": done["words"] + len(pages[number].split())}
        ol.progress(number + 1, len(pages), "pages read")
        if done["page"] % 2 == 0:
            await ol.checkpoint(done)
    return int(done["words"])


@ol.workflow
async def survey(book: str, pages: list[str]) -> str:
    return f"{book}: {await count_words(pages)} words"


if __name__ == "__main__":
    print(ol.run(survey, "A short book", ["once upon a time", "there was", "a log", "that grew", "the end"]))
