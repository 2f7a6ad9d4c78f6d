/** The log of a run as far as it was loaded, and the states that follow from it. */

import { type EventView, type Interval, type LogEvent, lineage, logEvent } from "./events";
import { fold, State } from "./fold";
import { TimelineBuilder } from "./timeline";

export class RunLog {
  readonly timeline = new TimelineBuilder();
  /** Changes with every event that is added. */
  version = 0;
  private readonly states = new Map<string, State>();
  private past: TimelineBuilder | null = null;

  /** The newest event that was loaded. */
  get seq(): number {
    return this.timeline.seq;
  }

  get events(): readonly LogEvent[] {
    return this.timeline.events;
  }

  /** The newest branch. */
  get branch(): number {
    return this.timeline.state.branch;
  }

  /** Add events of all branches, in order. Those that are known are dropped; false means that some are missing between. */
  add(views: readonly EventView[]): boolean {
    for (const view of views) {
      if (view.seq <= this.seq) continue;
      if (view.seq !== this.seq + 1) return false;
      this.timeline.add(logEvent(view));
      this.version += 1;
    }
    return true;
  }

  event(seq: number): LogEvent | undefined {
    return this.timeline.events[seq - 1];
  }

  /** The branch that the event was appended to. */
  branchAt(seq: number): number {
    return this.event(seq)?.branch ?? 0;
  }

  /** The intervals of events that a branch sees, up to an event. */
  lineage(branch: number, at: number | null = null): Interval[] {
    const { branches } = this.timeline;
    const all = lineage(branches, branch, branches.get(branch)?.last ?? 0);
    if (at === null) return all;
    return all.flatMap(([first, last]): Interval[] => (first <= at ? [[first, Math.min(last, at)]] : []));
  }

  /** The events that a branch sees, up to an event. */
  eventsOf(branch: number, at: number | null = null): LogEvent[] {
    return this.lineage(branch, at).flatMap(([first, last]) => this.events.slice(first - 1, last));
  }

  /** The timeline as it was after an event; null is now. Going on in time costs only the events between. */
  timelineAt(at: number | null): TimelineBuilder {
    if (at === null || at >= this.seq) return this.timeline;
    if (!this.past || this.past.seq > at) this.past = new TimelineBuilder();
    else if (this.past.seq === at) return this.past;
    else this.past = Object.assign(new TimelineBuilder(), this.past); // another instant is another object
    for (const event of this.events.slice(this.past.seq, at)) this.past.add(event);
    return this.past;
  }

  /** The state of a branch after an event; of the newest branch at its end, the one that is folded as events come. */
  stateOf(branch: number, at: number | null = null): State {
    const last = this.timeline.branches.get(branch)?.last ?? 0;
    if (branch === this.branch && (at === null || at >= this.seq)) return this.timeline.state;
    const key = `${branch} ${at === null ? last : Math.min(at, last)}`;
    let found = this.states.get(key);
    if (!found) {
      if (this.states.size > 20) this.states.clear();
      found = fold(new State(), this.eventsOf(branch, at));
      this.states.set(key, found);
    }
    return found;
  }
}
