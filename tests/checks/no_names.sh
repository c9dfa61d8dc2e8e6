#!/usr/bin/env bash
# The scheduler asks what an operator's row says and never which operator it is: no kind is named or compared, no
# layer's or file's name is looked at. Reading a network without weights (read.c) turns names into kinds, and answers
# (json.c) print them; both are let off, and read.c shows that the pattern finds what it should.
set -u
failed=0
kinds=$(sed -n '/^enum op_kind {/,/OP_KIND_COUNT/p' server/model/graph.h | grep -oE '^ +OP_[A-Z0-9_]+' | tr -d ' ' |
    grep -v COUNT | paste -sd '|')
pattern="\\b($kinds)\\b|(->|\\.)kind *[=!]=|[=!]= *[a-z>.-]*(->|\\.)kind\\b|switch *\\(.*(->|\\.)kind\\)|file_op|str(case|n)?cmp\\(.*name"

named=$(grep -nE "$pattern" server/schedule/*.[ch] | grep -vE '^server/schedule/(read|json)\.[ch]:')
if [ -n "$kinds" ] && [ -z "$named" ]; then
    echo "ok - scheduler_asks_for_no_operators_name"
else
    echo "$named"
    echo "not ok - scheduler_asks_for_no_operators_name"
    failed=1
fi

found=$(grep -cE "$pattern" server/schedule/read.c)
if [ "$found" -ge 5 ]; then
    echo "ok - the_pattern_finds_names_where_they_are"
else
    echo "not ok - the_pattern_finds_names_where_they_are: $found in read.c"
    failed=1
fi
exit "$failed"
