import { PageHeading } from "@/ui/PageHeading";

export default function StartPage() {
  return <PageHeading title="Start a run" />;
}
