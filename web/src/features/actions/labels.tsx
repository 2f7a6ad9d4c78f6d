import {
  Ban,
  Check,
  CirclePause,
  CornerUpLeft,
  FileCode2,
  GitBranch,
  GitFork,
  type LucideIcon,
  MessageCircleQuestionMark,
  Play,
  RotateCw,
  SquareTerminal,
  Stethoscope,
  Trash2,
  X,
} from "lucide-react";
import type { Offer } from "@/model/actions";
import { cutName } from "@/model/names";

export const ICONS: Record<Offer["kind"], LucideIcon> = {
  approve: Check,
  reject: X,
  answer: MessageCircleQuestionMark,
  start: Play,
  resume: RotateCw,
  decide: RotateCw,
  command: SquareTerminal,
  pause: CirclePause,
  cancel: Ban,
  fork: GitFork,
  activate: GitBranch,
  migrate: FileCode2,
  jump: CornerUpLeft,
  retry: RotateCw,
  repair: Stethoscope,
  delete: Trash2,
};

/** What is on the button. Three dots: it asks before it acts. */
export function labelOf(offer: Offer): string {
  switch (offer.kind) {
    case "approve":
      return "Approve";
    case "reject":
      return "Reject…";
    case "answer":
      return "Answer…";
    case "start":
      return "Start";
    case "resume":
      return "Resume";
    case "decide":
      return "Resume…";
    case "command":
      return "Show the command";
    case "pause":
      return "Pause…";
    case "cancel":
      return "Cancel…";
    case "fork":
      return "Fork…";
    case "activate":
      return "Go on from another branch…";
    case "migrate":
      return "Move to the current code…";
    case "retry":
      return "Do a node again…";
    case "delete":
      return "Delete…";
    case "repair":
      return `Repair ${offer.code}…`;
    case "jump":
      return offer.to ? `Go back to ${cutName(offer.to, 24)}…` : "Go back…";
  }
}

/** What the button says while the server has not answered. */
export const BUSY: Partial<Record<Offer["kind"], string>> = {
  start: "Starting…",
  resume: "Resuming…",
  approve: "Approving…",
};
