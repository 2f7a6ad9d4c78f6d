import { Search } from "lucide-react";
import { type FormEvent, useRef } from "react";
import { useNavigate } from "react-router";
import { answer, api } from "@/api/client";
import { useKeys } from "@/ui/keys";

/** Find a run: its whole id opens it, any other text lists what has it. `/` goes there. */
export function FindRun() {
  const input = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  useKeys({ "/": () => input.current?.focus() });
  const find = async (event: FormEvent) => {
    event.preventDefault();
    const text = input.current?.value.trim();
    if (!text || !input.current) return;
    input.current.value = "";
    input.current.blur();
    const query = { text, limit: 20 };
    const found = await answer(api.GET("/api/v1/runs", { params: { query } })).catch(() => null);
    const isId = found?.runs.some((run) => run.run === text);
    navigate(isId ? `/runs/${encodeURIComponent(text)}` : `/?${new URLSearchParams({ text, children: "shown" })}`);
  };
  return (
    <search className="max-md:hidden">
      <form onSubmit={find} className="relative">
        <Search size={14} aria-hidden className="absolute top-2 left-2 text-text-2" />
        <input
          ref={input}
          aria-label="Find a run"
          placeholder="Find a run"
          spellCheck={false}
          className="h-7 w-46 max-lg:w-28 rounded-control border border-line bg-surface pr-8 pl-7"
        />
        <kbd
          aria-hidden
          className="absolute top-1 right-1.5 rounded-control border border-line bg-canvas px-1.5 leading-4 text-text-3"
        >
          /
        </kbd>
      </form>
    </search>
  );
}
