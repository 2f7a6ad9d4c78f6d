import { PageHeading } from "@/ui/PageHeading";

export default function ComparePage() {
  return <PageHeading title="Compare" />;
}
