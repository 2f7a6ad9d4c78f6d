"""A person decides: `ol.approve` asks a yes-or-no question, `ol.ask` any other.

The workflow waits for the answer in the store, not in memory, for days if need be. Here the program itself answers;
in practice a person answers with `outlast answer` or through another engine on the same store.
"""

import asyncio

import outlast as ol


@ol.node
async def draft(topic: str) -> str:
    return f"Dear all, {topic} is on Friday."


@ol.node
async def mail(text: str, copies: int) -> str:
    return f"{copies} times: {text}"


@ol.workflow
async def invite(topic: str) -> str:
    text = await draft(topic)
    if not await ol.approve(f"May this go out? {text}"):
        return "nothing was sent"
    copies = await ol.ask("To how many people?", int)
    return await mail(text, copies)


async def main() -> None:
    answers = {"approve": True, "ask": 12}
    async with ol.open() as engine:
        run = await engine.start(invite, "the harvest")
        async for _ in run.watch():  # something happened: does it ask anything now?
            for question in await engine.questions(run.run):
                if question.id in answers:
                    print(question.text)
                    await run.answer(answers.pop(question.id), interaction=question.id, by="ann")
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
