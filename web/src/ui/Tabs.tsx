import { type ReactNode, useEffect, useRef } from "react";
import { Link, type To } from "react-router";

export interface Tab {
  key: string;
  name: string;
  to: To;
  /** A count beside the name. */
  count?: ReactNode;
}

/** Tabs that are links: each has an address. `end` stands at the right of their line. */
export function Tabs({ tabs, current, end, label }: { tabs: Tab[]; current: string; end?: ReactNode; label: string }) {
  const line = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab may stand outside of a narrow screen
  useEffect(() => {
    const tab = line.current?.querySelector<HTMLElement>("[aria-current=page]");
    if (tab && line.current)
      line.current.scrollLeft = tab.offsetLeft - (line.current.clientWidth - tab.offsetWidth) / 2;
  }, [current]);
  return (
    <div
      ref={line}
      className="relative my-4 flex items-stretch border-b border-line max-md:-mx-4 max-md:overflow-x-auto max-md:px-4 max-md:[scrollbar-width:none]"
    >
      <nav aria-label={label} className="flex">
        {tabs.map((tab) => (
          <Link
            key={tab.key}
            to={tab.to}
            aria-current={tab.key === current ? "page" : undefined}
            className="group flex items-center gap-1.5 px-3 text-text-2 whitespace-nowrap first:pl-0 hover:text-text aria-[current]:font-semibold aria-[current]:text-text"
          >
            <span className="relative pt-1.5 pb-2 group-aria-[current]:after:absolute group-aria-[current]:after:inset-x-0 group-aria-[current]:after:-bottom-px group-aria-[current]:after:h-0.5 group-aria-[current]:after:bg-ink max-md:pt-2.5 max-md:pb-3">
              {tab.name}
            </span>
            {tab.count === undefined ? null : <span className="text-meta font-normal text-text-3">{tab.count}</span>}
          </Link>
        ))}
      </nav>
      {end ? <div className="ml-auto flex items-center gap-2 pb-1 max-md:hidden">{end}</div> : null}
    </div>
  );
}

/** A few choices side by side, of which one is chosen. */
export function Segments<T extends string>({
  label,
  value,
  onChange,
  choices,
}: {
  label: string;
  value: T | null;
  onChange: (value: T) => void;
  choices: { value: T; text: ReactNode }[];
}) {
  return (
    <fieldset aria-label={label} className="inline-flex w-fit rounded-control border border-line bg-surface p-px">
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
          className="rounded-[3px] px-2.25 py-0.75 text-meta whitespace-nowrap text-text-2 hover:text-text aria-pressed:bg-selected aria-pressed:font-semibold aria-pressed:text-text max-md:min-h-9"
        >
          {choice.text}
        </button>
      ))}
    </fieldset>
  );
}
