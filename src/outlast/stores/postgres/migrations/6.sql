-- Lists by the beginning of an id use the index of `head`.
drop index {s}.catalogue_run;
