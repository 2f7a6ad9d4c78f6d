import { Search } from "lucide-react";
import { type FormEvent, useRef } from "react";
import { useNavigate } from "react-router";
import { useKeys } from "@/ui/keys";

/** Find a run by its id or by text: `/` goes there. */
export function FindRun() {
  const input = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  useKeys({ "/": () => input.current?.focus() });
  const find = (event: FormEvent) => {
    event.preventDefault();
    const text = input.current?.value.trim();
    if (text) navigate(`/?text=${encodeURIComponent(text)}`);
    if (input.current) input.current.value = "";
    input.current?.blur();
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
          className="h-7 w-46 rounded-control border border-line bg-surface pr-8 pl-7"
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
