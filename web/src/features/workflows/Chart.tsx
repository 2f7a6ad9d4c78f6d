import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { View } from "@/api/client";
import { duration, type Zone } from "@/model/durations";
import { msOf } from "@/ui/Moment";
import { useSettings } from "@/ui/settings";

const HEIGHT = 150;

/** Runs by how they ended, and how long those that completed took, over time. */
export default function Chart({ statistics }: { statistics: View<"StatisticsView"> }) {
  const { buckets } = statistics;
  const end = msOf(statistics.until) / 1000;
  const times = buckets.map((bucket) => msOf(bucket.since) / 1000);
  const stacked = (parts: number[][]) =>
    parts.map((_, at) => times.map((__, i) => sum(parts.slice(at).map((part) => part[i] ?? 0))));
  const [all = [], failed = [], cancelled = []] = stacked([
    buckets.map((bucket) => bucket.runs - bucket.failed - bucket.cancelled),
    buckets.map((bucket) => bucket.failed),
    buckets.map((bucket) => bucket.cancelled),
  ]);
  const took = (name: "p50" | "p90") => buckets.map((bucket) => bucket.duration_ms?.[name] ?? null);
  return (
    <div className="flex flex-col gap-4 px-4 pb-4">
      <Plot
        label="Runs over time"
        end={end}
        data={[times, all, failed, cancelled]}
        series={[
          { label: "Completed or not over", colour: "--done-bar" },
          { label: "Failed", colour: "--fail-bar" },
          { label: "Cancelled", colour: "--idle-bar" },
        ]}
        bars
        text={(value) => (Number.isInteger(value) ? String(value) : "")}
      />
      <Plot
        label="Durations over time"
        end={end}
        data={[times, took("p50"), took("p90")]}
        series={[
          { label: "Median", colour: "--own" },
          { label: "p90: 9 of 10 took less", colour: "--run-bar" },
        ]}
        text={(value) => duration(value)}
      />
    </div>
  );
}

const sum = (numbers: number[]): number => numbers.reduce((total, each) => total + each, 0);

interface PlotProps {
  label: string;
  /** The end of the last interval, in seconds. */
  end: number;
  data: uPlot.AlignedData;
  series: { label: string; colour: string }[];
  bars?: boolean;
  text: (value: number) => string;
}

function Plot({ label, end, data, series, bars, text }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const zone = useSettings((settings) => settings.zone);
  const theme = useSettings((settings) => settings.theme);
  const latest = useRef(text);
  latest.current = text;
  const shape = JSON.stringify([data, series, bars, end, theme]);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const [data, series, bars, end] = JSON.parse(shape) as [
      uPlot.AlignedData,
      PlotProps["series"],
      boolean | null,
      number,
    ];
    const draw = () => {
      const style = getComputedStyle(element);
      const colour = (name: string) => resolved(element, style.getPropertyValue(name));
      const axis = { stroke: colour("--text-2"), font: `12px ${style.fontFamily}`, ticks: { show: false } };
      return new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          cursor: { show: false },
          ...(zone === "utc" ? { tzDate: (time: number) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC") } : {}),
          scales: { x: { range: [data[0][0] ?? 0, end] }, y: { range: (_, __, most) => [0, Math.max(most, 1) * 1.1] } },
          axes: [
            {
              ...axis,
              grid: { show: false },
              values: (_, times, __, ___, step) => times.map((time) => timeText(time, step, zone)),
            },
            {
              ...axis,
              size: 72,
              grid: { stroke: colour("--line"), width: 1 },
              values: (_, values) => values.map((value) => latest.current(value)),
            },
          ],
          series: [
            {},
            ...series.map((each) =>
              bars
                ? {
                    label: each.label,
                    fill: colour(each.colour),
                    width: 0,
                    paths: uPlot.paths.bars?.({ size: [0.8, 24], align: 1 }),
                    points: { show: false },
                  }
                : {
                    label: each.label,
                    stroke: colour(each.colour),
                    width: 2,
                    spanGaps: true,
                    points: { show: true, size: 5 },
                  },
            ),
          ] as uPlot.Series[],
        },
        data,
        element,
      );
    };
    let plot = draw();
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const again = () => {
      plot.destroy();
      plot = draw();
    };
    dark.addEventListener("change", again);
    return () => {
      dark.removeEventListener("change", again);
      sizes.disconnect();
      plot.destroy();
    };
  }, [shape, zone]);
  return (
    <figure aria-label={label}>
      <figcaption className="mb-1 flex flex-wrap gap-x-4 text-meta text-text-2">
        {series.map((each) => (
          <span key={each.label} className="inline-flex items-center gap-1.5">
            <span aria-hidden className="size-2.5 rounded-[2px]" style={{ background: `var(${each.colour})` }} />
            {each.label}
          </span>
        ))}
      </figcaption>
      {/* The drawing has a fixed width: it must not widen the page before it is drawn again for a narrower window. */}
      <div ref={place} className="overflow-hidden [contain:inline-size]" />
    </figure>
  );
}

/** `18:00`, or the day where it begins. */
function timeText(time: number, step: number, zone: Zone): string {
  const of = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat("en-GB", { ...options, ...(zone === "utc" ? { timeZone: "UTC" } : {}) }).format(
      time * 1000,
    );
  const clock = of({ hour: "2-digit", minute: "2-digit" });
  return step >= 86_400 || clock === "00:00" ? of({ day: "numeric", month: "short" }) : clock;
}

/** A colour as the canvas can draw it: `light-dark()` is resolved for this element. */
function resolved(element: HTMLElement, colour: string): string {
  const probe = document.createElement("span");
  probe.style.color = colour;
  element.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
