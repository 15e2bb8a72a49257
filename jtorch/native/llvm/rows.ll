; The walk keeps no state outside its registers: threads may run different tables, or the same one over
; different memory.
define i64 @jtorch_run_rows(ptr %rows, i64 %count) {
entry:
  %none = icmp slt i64 %count, 1
  br i1 %none, label %done, label %row

row:
  %index = phi i64 [ 0, %entry ], [ %next_index, %row_end ]
  %kernel_slot = getelementptr [5 x i64], ptr %rows, i64 %index
  %block_slot = getelementptr i64, ptr %kernel_slot, i64 1
  %repeat_slot = getelementptr i64, ptr %kernel_slot, i64 2
  %stride_slot = getelementptr i64, ptr %kernel_slot, i64 3
  %pool_slot = getelementptr i64, ptr %kernel_slot, i64 4
  %kernel = load ptr, ptr %kernel_slot
  %block = load ptr, ptr %block_slot
  %repeat = load i64, ptr %repeat_slot
  %stride = load i64, ptr %stride_slot
  %pool = load ptr, ptr %pool_slot
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %how_often, label %spread

spread:
  %kernel_word = ptrtoint ptr %kernel to i64
  %block_word = ptrtoint ptr %block to i64
  %spread_code = call i64 @jtorch_parallel(
    ptr %pool, i64 %kernel_word, i64 %block_word, i64 %repeat, i64 %stride)
  %spread_failed = icmp ne i64 %spread_code, 0
  br i1 %spread_failed, label %fail, label %row_end

how_often:
  %skip = icmp slt i64 %repeat, 1
  br i1 %skip, label %row_end, label %call

call:
  %round = phi i64 [ 0, %how_often ], [ %next_round, %call_ok ]
  %here = phi ptr [ %block, %how_often ], [ %next_here, %call_ok ]
  %code = call i64 %kernel(ptr %here)
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %call_ok

call_ok:
  %next_round = add i64 %round, 1
  %next_here = getelementptr i8, ptr %here, i64 %stride
  %more_rounds = icmp slt i64 %next_round, %repeat
  br i1 %more_rounds, label %call, label %row_end

row_end:
  %next_index = add i64 %index, 1
  %more_rows = icmp slt i64 %next_index, %count
  br i1 %more_rows, label %row, label %done

fail:
  %wrong = phi i64 [ %code, %call ], [ %spread_code, %spread ]
  %small = and i64 %wrong, CODE_MASK
  %shifted = shl i64 %index, CODE_BITS
  %status = or i64 %shifted, %small
  ret i64 %status

done:
  ret i64 0
}

define i64 @jtorch_walk(ptr %block) {
  %count = load i64, ptr %block
  %rows = getelementptr i64, ptr %block, i64 1
  %status = call i64 @jtorch_run_rows(ptr %rows, i64 %count)
  %code = and i64 %status, CODE_MASK
  ret i64 %code
}

; A record's rows, once for each step: see scan_kernel() of executor.py.
define i64 @jtorch_scan(ptr %block) {
entry:
  %steps_slot = getelementptr i64, ptr %block, i64 1
  %count_slot = getelementptr i64, ptr %block, i64 2
  %skipped_slot = getelementptr i64, ptr %block, i64 3
  %ends_slot = getelementptr i64, ptr %block, i64 4
  %arguments = getelementptr i64, ptr %block, i64 5
  %record = load ptr, ptr %block
  %skipped_at = load ptr, ptr %skipped_slot
  %ends = load i64, ptr %ends_slot
  %steps = load i64, ptr %steps_slot
  %count = load i64, ptr %count_slot
  %row_count_slot = getelementptr i64, ptr %record, i64 1
  %patches = getelementptr i64, ptr %record, i64 7
  %patch_count = load i64, ptr %record
  %row_count = load i64, ptr %row_count_slot
  %patch_words = mul i64 %patch_count, 3
  %rows = getelementptr i64, ptr %patches, i64 %patch_words
  %end = sub i64 %ends, 1
  %end_slot = getelementptr [6 x i64], ptr %arguments, i64 %end
  %skips = icmp ne ptr %skipped_at, null
  br i1 %skips, label %skip, label %begin

skip:
  %skipped = load i64, ptr %skipped_at
  br label %begin

begin:
  %first_k = phi i64 [ 0, %entry ], [ %skipped, %skip ]
  %any = icmp slt i64 %first_k, %steps
  br i1 %any, label %step, label %done

step:
  %k = phi i64 [ %first_k, %begin ], [ %next_k, %step_end ]
  %is_first = icmp eq i64 %k, %first_k
  br label %argument

argument:
  %a = phi i64 [ 0, %step ], [ %next_a, %argument ]
  %now_slot = getelementptr [6 x i64], ptr %arguments, i64 %a
  %first_slot = getelementptr i64, ptr %now_slot, i64 1
  %later_slot = getelementptr i64, ptr %now_slot, i64 2
  %stride_slot = getelementptr i64, ptr %now_slot, i64 3
  %mask_slot = getelementptr i64, ptr %now_slot, i64 4
  %late_slot = getelementptr i64, ptr %now_slot, i64 5
  %first = load i64, ptr %first_slot
  %later = load i64, ptr %later_slot
  %stride = load i64, ptr %stride_slot
  %mask = load i64, ptr %mask_slot
  %late = load i64, ptr %late_slot
  %turn = sub i64 %k, %late
  %masked = and i64 %turn, %mask
  %far = mul i64 %masked, %stride
  %moved = add i64 %later, %far
  %has_first = icmp ne i64 %first, 0
  %is_there = and i1 %is_first, %has_first
  %now = select i1 %is_there, i64 %first, i64 %moved
  store i64 %now, ptr %now_slot
  %next_a = add i64 %a, 1
  %more_arguments = icmp slt i64 %next_a, %count
  br i1 %more_arguments, label %argument, label %any_patches

any_patches:
  %no_patches = icmp slt i64 %patch_count, 1
  br i1 %no_patches, label %patched, label %patch

patch:
  %index = phi i64 [ 0, %any_patches ], [ %next_index, %patch ]
  %position_slot = getelementptr [3 x i64], ptr %patches, i64 %index
  %destination_slot = getelementptr i64, ptr %position_slot, i64 1
  %offset_slot = getelementptr i64, ptr %position_slot, i64 2
  %position = load i64, ptr %position_slot
  %destination = load ptr, ptr %destination_slot
  %offset = load i64, ptr %offset_slot
  %address_slot = getelementptr [6 x i64], ptr %arguments, i64 %position
  %address = load i64, ptr %address_slot
  %word = add i64 %address, %offset
  store i64 %word, ptr %destination
  %next_index = add i64 %index, 1
  %more_patches = icmp slt i64 %next_index, %patch_count
  br i1 %more_patches, label %patch, label %patched

patched:
  %status = call i64 @jtorch_run_rows(ptr %rows, i64 %row_count)
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %fail, label %ran

ran:
  %may_end = icmp ne i64 %ends, 0
  br i1 %may_end, label %ask, label %step_end

ask:
  %answer_at = load ptr, ptr %end_slot
  %answer = load i64, ptr %answer_at
  %goes_on = icmp sge i64 %answer, 0
  br i1 %goes_on, label %step_end, label %done

step_end:
  %next_k = add i64 %k, 1
  %more = icmp slt i64 %next_k, %steps
  br i1 %more, label %step, label %done

fail:
  %code = and i64 %status, CODE_MASK
  ret i64 %code

done:
  ret i64 0
}

define ptr @jtorch_call(ptr %self, ptr %arguments, i64 %argument_count) {
entry:
  %record_slot = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %record = load ptr, ptr %record_slot
  %row_count_slot = getelementptr i64, ptr %record, i64 1
  %expected_slot = getelementptr i64, ptr %record, i64 2
  %make_int_slot = getelementptr i64, ptr %record, i64 3
  %save_slot = getelementptr i64, ptr %record, i64 4
  %restore_slot = getelementptr i64, ptr %record, i64 5
  %ended_slot = getelementptr i64, ptr %record, i64 6
  %patches = getelementptr i64, ptr %record, i64 7
  %patch_count = load i64, ptr %record
  %row_count = load i64, ptr %row_count_slot
  %expected = load i64, ptr %expected_slot
  %make_int = load ptr, ptr %make_int_slot
  %save = load ptr, ptr %save_slot
  %patch_words = mul i64 %patch_count, 3
  %rows = getelementptr i64, ptr %patches, i64 %patch_words
  %counts_agree = icmp eq i64 %expected, %argument_count
  br i1 %counts_agree, label %any_patches, label %wrong_count

wrong_count:
  %refusal = call ptr %make_int(i64 -1)
  ret ptr %refusal

any_patches:
  %no_patches = icmp slt i64 %patch_count, 1
  br i1 %no_patches, label %patched, label %patch

patch:
  %index = phi i64 [ 0, %any_patches ], [ %next_index, %patch ]
  %position_slot = getelementptr [3 x i64], ptr %patches, i64 %index
  %destination_slot = getelementptr i64, ptr %position_slot, i64 1
  %offset_slot = getelementptr i64, ptr %position_slot, i64 2
  %position = load i64, ptr %position_slot
  %destination = load ptr, ptr %destination_slot
  %offset = load i64, ptr %offset_slot
  %argument_slot = getelementptr ptr, ptr %arguments, i64 %position
  %argument = load ptr, ptr %argument_slot
  %word_slot = getelementptr i8, ptr %argument, i64 DATA_OFFSET
  %word = load i64, ptr %word_slot
  %moved = add i64 %word, %offset
  store i64 %moved, ptr %destination
  %next_index = add i64 %index, 1
  %more = icmp slt i64 %next_index, %patch_count
  br i1 %more, label %patch, label %patched

patched:
  %keep_gil = icmp eq ptr %save, null
  br i1 %keep_gil, label %run, label %run_released

run:
  %short_status = call i64 @jtorch_run_rows(ptr %rows, i64 %row_count)
  br label %ended

run_released:
  %restore = load ptr, ptr %restore_slot
  %thread = call ptr %save()
  %long_status = call i64 @jtorch_run_rows(ptr %rows, i64 %row_count)
  call void %restore(ptr %thread)
  br label %ended

ended:
  %status = phi i64 [ %short_status, %run ], [ %long_status, %run_released ]
  %well = icmp eq i64 %status, 0
  %one = zext i1 %well to i64
  %before = load i64, ptr %ended_slot
  %count = add i64 %before, %one
  store i64 %count, ptr %ended_slot
  %result = call ptr %make_int(i64 %status)
  ret ptr %result
}
