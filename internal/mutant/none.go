//go:build !(mutant_skip_swap || mutant_stale_grant || mutant_forget_key || mutant_forget_tombstone || mutant_agent_clock || mutant_old_advertisement || mutant_early_resale || mutant_release_twice || mutant_count_both || mutant_hasty_answer || mutant_hasty_shrink || mutant_hasty_leave || mutant_early_expiry || mutant_out_of_order || mutant_equal_victim || mutant_late_take)

package mutant

// Active is the mistake that this binary has: none.
const Active Mutant = ""
