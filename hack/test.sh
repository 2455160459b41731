#!/usr/bin/env bash
# Runs suites of tests and reports times, the slowest tests and failures.
#
#   hack/test.sh gate         what "make test" runs
#   hack/test.sh all          every suite; takes more than an hour
#   hack/test.sh SUITE ...    some suites, one after the other, for example: hack/test.sh unit endings
#   ONLY='./e2e/local TestStory' hack/test.sh local    one test, as its suite runs it
#
# Output, events and JUnit files are in dist/test. A failed test runs once more by itself. If it then
# passes, the suite passes, and the report ends with "flaky: PACKAGE TEST".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The tests have enough memory but few processors, so their programs collect garbage less often.
# Without paths in what is compiled, clones in other folders use the same build cache.
export GOGC=${GOGC:-300}
GOFLAGS="$(go env GOFLAGS) -trimpath"
export GOFLAGS

module=$(go list -m)
# After this time a package of the gate hangs. A busy machine may take several times as long as an idle one.
hang=45m
results=dist/test

# Packages whose tests start no programs, without those named in $without. Of ./internal/broker, only a benchmark does.
start_nothing() {
  { go list ./internal/broker && go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... |
    grep -v -e controlplanetest -e /e2e -e /internal/playground -e os/exec | cut -d ' ' -f 1; } |
    # shellcheck disable=SC2086 # several packages
    grep -vxF "$([[ -z ${without:-} ]] || go list $without)"
}
# Packages whose tests wait for elections, restarts and boots more than they compute.
waiting='./cmd/broker/app ./internal/playground/... ./internal/broker/journal'
# Packages in which goroutines meet. Those of ./internal/broker meet in few of its tests.
concurrent='./internal/broker/outbox ./internal/broker/replica ./internal/broker/server ./internal/agent/capacity
  ./internal/agent/inbox ./internal/agent/outbox ./internal/agent/transport/http'
# packages_but lists the packages that need no suite of their own and are not among its arguments, those
# with the slowest tests first, so that no processor idles at the end.
packages_but() {
  local slowest=(./liqo ./charts/charttest ./controllers/agent/burstpolicy ./internal/console ./charts/guardtest)
  go list "${slowest[@]}"
  go list ./... | grep -vE '/e2e/(attacks|bench|gitops|kueue|local|robustness)$' | grep -vxF "$(go list "${slowest[@]}" "$@")"
}
# Packages with benchmarks.
benched() { grep -rl '^func Benchmark' --include='*_test.go' internal | xargs -n 1 dirname | sort -u | sed 's|^|./|'; }

# The gate's scenarios: the story, the core of the product, and one attack of each kind.
scenarios='TestStory|TestWebhooksRefuse|TestReservationCreatedInTheBrokersCluster|TestRequestWaits|ExtendedInPlace|TestDeniedCluster'
scenarios+='|LeavesOtherPodsOfItsNamespaceAlone|TestUnreachableProvider|TestPodsRunOnTheNodesAskedFor|WithoutAffectingItsSibling'
scenarios+='|TestLendingPolicy|TestKilledAtEveryStep/all_of_them'
scenarios+='|TestConsumerExceeds|TestCertificatesForOtherGroups|CountedWrongly|ThatReachTheHost|ThatReachFurther|TestOtherTenants'
scenarios+='|TestShadowPodsThatLie|TestCollectionsOfOthers|TestEveryAlertHasAFault|TestHelmTestPasses'
# Scenarios that take longest, because they wait until something is over.
endings='TestKilledAtEveryStep|ConsumerGivesUp|LostProviderIsLeft|EndingReservationAffects|PodsLeave|CyclesLeaveNothing'

# run_suite runs the suite of a name.
run_suite() {
  # Suites that run at the same time have playgrounds of their own.
  export LRB_PLAYGROUND_DIR=$PWD/.playground-test/$1 LRB_E2E_RACE=1
  case $1 in
  vet) go vet ./... ;;
  # In the suites unit and concurrency, go test remembers which packages passed, and runs those again that changed since.
  unit) repeat='' run_tests "$1" "$(start_nothing)" -short -p 3 -timeout $hang ;;
  structure) run_tests "$1" ./internal/archtest ;;

  # The gate's suites.
  # shellcheck disable=SC2046,SC2086 # several packages
  packages) # Its tests start programs, which are linked once.
    export LRB_PROGRAMS=$PWD/$results/programs
    go build -ldflags '-s -w' -o "$LRB_PROGRAMS/" ./cmd/broker ./cmd/agent ./cmd/kubectl-broker
    run_tests "$1" "$(packages_but $waiting $concurrent $(start_nothing))" -short -p 3 -timeout $hang ;;
  concurrency) repeat='' run_tests "$1" "$concurrent" -race -short -p 3 -timeout $hang ;;
  broker) flags=-broker.steps=5000 run_tests "$1" ./internal/broker -race -timeout $hang \
    -run '^(TestSimulation|TestExampleOfConcurrentReservations|TestLongPollReturnsNews|TestQueueNewsReachTheRequester)$' ;;
  faults) run_tests "$1" ./e2e/robustness -timeout $hang -run 'TestEveryMutantIsFound|TestBrokersKilledAtRandomTimes' ;;
  scenarios) LRB_E2E_RACE=0 run_tests "$1" './e2e/local ./e2e/attacks' -p 1 -timeout $hang -run "$scenarios" ;;

  # The others.
  # shellcheck disable=SC2086 # several packages
  race) run_tests "$1" "$(packages_but $waiting)" -race -p 2 -timeout 40m ;;
  waiting) run_tests "$1" "$waiting" -race -p 1 -timeout 40m ;;
  model) flags=-broker.steps=${STEPS:-1000000} run_tests "$1" ./internal/broker -timeout 40m -run '^TestSimulation$' ;;
  benchmarks) run_tests "$1" "./e2e/bench $(benched)" -p 1 -timeout 20m -run '^TestStudiesPrintTheirFigures$' -bench . -benchtime 1x ;;
  robustness) run_tests "$1" ./e2e/robustness -timeout 40m ;;
  local) run_tests "$1" ./e2e/local -timeout 80m -skip "$endings|TestAlertsFire" ;;
  endings) run_tests "$1" ./e2e/local -timeout 80m -run "$endings" ;;
  alerts) LRB_E2E_RACE=0 run_tests "$1" ./e2e/local -timeout 60m -run TestAlertsFire ;;
  gitops) LRB_E2E_RACE=0 run_tests "$1" ./e2e/gitops -timeout 60m ;;
  kueue) run_tests "$1" ./e2e/kueue -timeout 60m ;;
  attacks) # ADVERSARY decides how long the adversary takes
    local limit=40m
    [[ -z ${ADVERSARY:-} ]] || limit=0
    LRB_ADVERSARY=${ADVERSARY:-} LRB_SEED=${SEED:-} run_tests "$1" ./e2e/attacks -timeout "$limit" ;;
  *)
    echo "hack/test.sh has no suite \"$1\"" >&2
    return 2
    ;;
  esac
}

# run_tests SUITE PACKAGES FLAG... runs the tests of packages, which get the flags in $flags. Unless $repeat is empty,
# it also runs those that passed before, in another order. The suite vet vets.
run_tests() {
  local suite=$1 packages=$2
  shift 2
  if [[ -n ${ONLY:-} ]]; then
    packages=${ONLY% *}
    set -- "$@" -run "^${ONLY#* }\$"
  fi
  # shellcheck disable=SC2046,SC2086 # several packages, several flags
  "$results/gotestsum" --format pkgname --format-icons text --hide-summary skipped --packages "$(echo $packages)" \
    --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-report "$results/$suite.reruns" \
    --jsonfile "$results/$suite.json" --junitfile "$results/$suite.xml" -- -vet=off ${repeat--count=1 -shuffle=on} "$@" ${flags:+-args $flags}
}

# run_lane runs suites one after the other, also after a failure.
run_lane() {
  local suite begin status
  for suite in "$@"; do
    begin=$SECONDS status=passed
    echo "==> $suite"
    run_suite "$suite" 2>&1 | tee "$results/$suite.log" || status=FAILED
    echo "$suite $status after $((SECONDS - begin)) s" | tee -a "$results/suites"
  done
}

# report prints the results of a run, and returns 1 if a suite failed.
report() {
  local suite failed=() package test
  mapfile -t failed < <(awk '$2 == "FAILED" {print $1}' "$results/suites")
  if compgen -G "$results/*.json" >/dev/null; then
    echo "==> the slowest tests"
    cat "$results"/*.json | "$results/gotestsum" tool slowest --num 10 | sed "s|^$module/||"
  fi
  for suite in "${failed[@]}"; do
    echo "==> the end of $results/$suite.log"
    tail -n "$((120 / ${#failed[@]}))" "$results/$suite.log"
  done
  echo "==> suites"
  cat "$results/suites"
  for suite in "${failed[@]}"; do
    { grep -h '^=== FAIL: ' "$results/$suite.log" || true; } | awk '{print $3, $4}' | sort -u | while read -r package test; do
      echo "FAIL: $package $test; repeat it with: ONLY='./$package ${test%%/*}' hack/test.sh $suite"
    done
  done
  # gotestsum lists tests that it ran again, passed or not.
  { cat "$results"/*.reruns 2>/dev/null || true; } | sed -nE "s|^$module/([^ ]*)\.([A-Z][^.:]*): 2 runs, 1 failures.*|flaky: \1 \2|p"
  ((${#failed[@]} == 0))
}

rm -rf "$results"
mkdir -p "$results"
go build -modfile=hack/tools/go.mod -o "$results/gotestsum" gotest.tools/gotestsum
case ${1:-} in
gate)
  run_lane scenarios concurrency &
  without=$concurrent run_lane vet unit packages faults broker
  wait
  ;;
all) # the second and the third lane mostly wait
  run_lane vet race model benchmarks &
  run_lane gitops alerts kueue local &
  run_lane endings attacks robustness waiting
  wait
  ;;
*) run_lane "$@" ;;
esac
report
