package burst

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// worker is the shape of the pods of the buffers in these tests.
var worker = quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourceMemory: 1 << 28, corev1.ResourcePods: 1}

func podsOfWorkers(n int64) quantity.Amounts {
	out := worker.Times(n)
	delete(out, corev1.ResourcePods)
	return out
}

func poolOf(state State, asked, granted, used int64, changed time.Time) *Pool {
	p := &Pool{Request: Request{State: state, Shape: worker, Asked: podsOfWorkers(asked), Used: worker.Times(used)}, Least: 1, ChangedAt: changed}
	if granted > 0 {
		p.Granted = podsOfWorkers(granted)
	}
	return p
}

func TestPlanBuffer(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	long := now.Add(-time.Hour)
	surplus := func(since time.Time, p *Pool) *Pool { p.Surplus.Since = since; return p }
	always := func(n int64, p *Pool) *Pool { p.Surplus.Least = n; return p }
	least := func(n int64, p *Pool) *Pool { p.Least = n; return p }
	guest := func(p *Pool) *Pool { p.Guests = 1; return p }
	unusable := func(p *Pool) *Pool { p.Unusable = true; return p }
	over := func(ended time.Time) *Pool { p := poolOf(Over, 3, 0, 0, long); p.OverAt = ended; return p }
	four := quantity.Amounts{corev1.ResourceCPU: 2000}
	for name, tt := range map[string]struct {
		replicas int64 // -1: as many as the limit allows
		limit    quantity.Amounts
		pool     *Pool
		want     BufferPlan
	}{
		"no request yet":                            {3, nil, nil, BufferPlan{Action: CreatePool, Pods: 3, Why: "Settling"}},
		"nothing to keep":                           {0, nil, nil, BufferPlan{Why: "Requested"}},
		"as many as the limit allows":               {-1, four, nil, BufferPlan{Action: CreatePool, Pods: 4, Why: "Settling"}},
		"a limit below one pod":                     {3, quantity.Amounts{corev1.ResourceCPU: 100}, nil, BufferPlan{Why: "LimitReached"}},
		"the node is cordoned or not Ready":         {3, nil, unusable(poolOf(Held, 3, 3, 0, long)), BufferPlan{Why: "NodeUnusable"}},
		"not answered yet":                          {3, nil, poolOf(Settling, 3, 0, 0, long), BufferPlan{Why: "Settling"}},
		"warm":                                      {3, nil, poolOf(Held, 3, 3, 0, long), BufferPlan{Why: "Requested"}},
		"pods have come":                            {3, nil, poolOf(Held, 3, 3, 2, long), BufferPlan{Action: ResizePool, Pods: 5, Why: "Settling"}},
		"pods have come within the pause":           {3, nil, poolOf(Held, 3, 3, 2, now.Add(-time.Second)), BufferPlan{Why: "Pausing", Until: now.Add(Pause - time.Second)}},
		"the clock was set back":                    {3, nil, poolOf(Held, 3, 3, 2, now.Add(time.Hour)), BufferPlan{Action: ResizePool, Pods: 5, Why: "Settling"}},
		"the clock is behind that of the replica":   {3, nil, poolOf(Held, 3, 3, 2, now.Add(time.Second)), BufferPlan{Why: "Pausing", Until: now.Add(Pause + time.Second)}},
		"the clock was set back, and pods left":     {3, nil, surplus(now.Add(-ShrinkAfter), poolOf(Held, 5, 5, 1, now.Add(time.Hour))), BufferPlan{Action: ResizePool, Pods: 4, Why: "Requested"}},
		"pods have come, up to the limit":           {3, four, poolOf(Held, 3, 3, 2, long), BufferPlan{Action: ResizePool, Pods: 4, Why: "Settling"}},
		"all that the limit allows is used":         {3, four, poolOf(Held, 4, 4, 4, long), BufferPlan{Why: "LimitReached"}},
		"the provider refuses more":                 {3, nil, poolOf(Refused, 5, 3, 2, long), BufferPlan{Action: RevertPool, Why: "NoCapacity", Until: long.Add(RetryAfter)}},
		"the provider has refused more":             {3, nil, poolOf(Full, 3, 3, 2, now.Add(-Pause)), BufferPlan{Why: "NoCapacity", Until: now.Add(RetryAfter - Pause)}},
		"the provider refused more long ago":        {3, nil, poolOf(Full, 3, 3, 2, long), BufferPlan{Action: ResizePool, Pods: 5, Why: "Settling"}},
		"pods have left just now":                   {3, nil, surplus(now, poolOf(Held, 5, 5, 1, long)), BufferPlan{Why: "Requested"}},
		"pods have left":                            {3, nil, surplus(now.Add(-ShrinkAfter), poolOf(Held, 5, 5, 1, long)), BufferPlan{Action: ResizePool, Pods: 4, Why: "Requested"}},
		"short pods come and go":                    {3, nil, always(2, surplus(now.Add(-ShrinkAfter), poolOf(Held, 9, 9, 1, long))), BufferPlan{Action: ResizePool, Pods: 7, Why: "Requested"}},
		"some was used in the last minutes":         {0, nil, always(3, surplus(now.Add(-ShrinkAfter), poolOf(Held, 5, 5, 0, long))), BufferPlan{Action: ResizePool, Pods: 2, Why: "Requested"}},
		"all have left and nothing is kept":         {0, nil, surplus(now.Add(-ShrinkAfter), poolOf(Held, 5, 5, 0, long)), BufferPlan{Action: DeletePool, Why: "Settling"}},
		"it shrinks to its first size":              {1, nil, surplus(now.Add(-ShrinkAfter), least(5, poolOf(Held, 8, 8, 1, long))), BufferPlan{Action: ResizePool, Pods: 5, Why: "Requested"}},
		"less is kept than its first size":          {1, nil, least(5, poolOf(Held, 5, 5, 1, long)), BufferPlan{Why: "Requested"}},
		"less is kept, and nothing is used":         {1, nil, surplus(now.Add(-ShrinkAfter), least(5, poolOf(Held, 5, 5, 0, long))), BufferPlan{Action: DeletePool, Why: "Settling"}},
		"the broker refused just now to shrink":     {3, nil, surplus(now.Add(-ShrinkAfter), poolOf(Full, 7, 7, 1, now.Add(-Pause))), BufferPlan{Why: "Requested"}},
		"nothing is kept, but something used":       {0, nil, surplus(now.Add(-ShrinkAfter), poolOf(Held, 5, 5, 2, long)), BufferPlan{Action: ResizePool, Pods: 2, Why: "Requested"}},
		"the limit was lowered below the used":      {3, four, surplus(now.Add(-ShrinkAfter), poolOf(Held, 8, 8, 6, long)), BufferPlan{Action: ResizePool, Pods: 6, Why: "Requested"}},
		"no cluster had room":                       {3, nil, over(now.Add(-time.Minute)), BufferPlan{Why: "NoCapacity", Until: now.Add(RetryAfter - time.Minute)}},
		"no cluster had room long ago":              {3, nil, over(long), BufferPlan{Action: DeletePool, Why: "Settling"}},
		"a limit that names nothing of the pods":    {-1, quantity.Amounts{"nvidia.com/gpu": 4}, nil, BufferPlan{Why: "Requested"}},
		"a limit that names nothing of the request": {-1, quantity.Amounts{"nvidia.com/gpu": 4}, poolOf(Held, 3, 3, 2, long), BufferPlan{Why: "Requested"}},
		"a pod that requests nothing is left":       {0, nil, surplus(now.Add(-ShrinkAfter), guest(poolOf(Held, 5, 5, 0, long))), BufferPlan{Action: ResizePool, Pods: 1, Why: "Requested"}},
		"it shrinks and has enough free room":       {3, nil, poolOf(Settling, 4, 7, 1, long), BufferPlan{Why: "Requested"}},
		"it grows and has too little free room":     {3, nil, poolOf(Settling, 5, 3, 2, long), BufferPlan{Why: "Settling"}},
		"a user has released it":                    {3, nil, poolOf(Ending, 3, 3, 0, long), BufferPlan{Why: "Settling"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Buffer{Limit: tt.limit, Shape: worker}
			if tt.replicas >= 0 {
				b.Replicas = &tt.replicas
			}
			if tt.pool != nil && tt.pool.Surplus.Least == 0 {
				tt.pool.Surplus.Least = b.SurplusOf(tt.pool)
			}
			if got := PlanBuffer(b, tt.pool, now); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Pods come and go, and the provider grants some changes. Between two changes lies a minute, the request stays within
// its limit, and it has room for the pods that use it.
func TestBuffersKeepTheirRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		replicas, most := rapid.Int64Range(0, 10).Draw(t, "replicas"), rapid.Int64Range(1, 20).Draw(t, "most")
		b := &Buffer{Replicas: &replicas, Limit: podsOfWorkers(most), Shape: worker}
		var pool *Pool
		var last time.Time
		var used int64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			if pool != nil {
				used = rapid.Int64Range(0, podsIn(pool.Granted, worker)).Draw(t, "used")
				pool.Used = worker.Times(used)
				pool.Surplus.Observe(b.SurplusOf(pool), now)
			}
			plan := PlanBuffer(b, pool, now)
			switch plan.Action {
			case "":
				continue
			case RevertPool:
				pool.Asked, pool.State = pool.Granted, Full
				continue
			case DeletePool:
				if used > 0 {
					t.Fatalf("deleted with %d pods", used)
				}
				pool = nil
			case CreatePool:
				pool = &Pool{Request: Request{State: Held, Shape: worker, Asked: podsOfWorkers(plan.Pods), Granted: podsOfWorkers(plan.Pods)}, Least: plan.Pods}
			case ResizePool:
				pool.Asked, pool.State, pool.Surplus = podsOfWorkers(plan.Pods), Held, Surplus{}
				if plan.Pods < used {
					t.Fatalf("%d pods lose their room: %+v", used, plan)
				}
				if rapid.Bool().Draw(t, "granted") || plan.Pods < podsIn(pool.Granted, worker) {
					pool.Granted = pool.Asked
				} else {
					pool.State = Refused
				}
			}
			if plan.Action != DeletePool {
				if since := now.Sub(last); since < Pause && plan.Action == ResizePool {
					t.Fatalf("%+v after %s", plan, since)
				}
				if plan.Pods > most {
					t.Fatalf("%+v exceeds the limit of %d", plan, most)
				}
				last, pool.ChangedAt = now, now
			}
		}
	})
}

func TestRoomThatIsNotGrantedYetIsNotFree(t *testing.T) {
	b := &Buffer{Shape: worker}
	for name, tt := range map[string]struct{ asked, granted, used, want int64 }{
		"grows": {5, 3, 2, 1}, "shrinks": {4, 7, 1, 3}, "first answer": {3, 0, 0, 0},
	} {
		if free := b.Free(poolOf(Settling, tt.asked, tt.granted, tt.used, time.Time{})); free != tt.want {
			t.Errorf("%s: %d free, want %d", name, free, tt.want)
		}
	}
}
