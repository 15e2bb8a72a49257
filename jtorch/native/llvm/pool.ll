; `jtorch_parallel` runs the pieces of a round and gives 0, or the status of the first piece that failed.
define internal void @jtorch_take(ptr %pool, i64 %round, i1 %from_front) {
entry:
  %claim_at = getelementptr i64, ptr %pool, i64 CLAIM
  %count_at = getelementptr i64, ptr %pool, i64 COUNT
  %kernel_at = getelementptr i64, ptr %pool, i64 KERNEL
  %block_at = getelementptr i64, ptr %pool, i64 BLOCK
  %stride_at = getelementptr i64, ptr %pool, i64 STRIDE
  %mode_at = getelementptr i64, ptr %pool, i64 FLOATS
  %status_at = getelementptr i64, ptr %pool, i64 STATUS
  %done_at = getelementptr i64, ptr %pool, i64 DONE
  br label %look

look:
  %old = load atomic i64, ptr %claim_at acquire, align 8
  %its_round = lshr i64 %old, 32
  %this = icmp eq i64 %its_round, %round
  br i1 %this, label %which, label %end

which:
  %both = and i64 %old, 4294967295
  %front = lshr i64 %both, 16
  %back = and i64 %old, 65535
  %taken = add i64 %front, %back
  %count = load atomic i64, ptr %count_at acquire, align 8
  %left = icmp ult i64 %taken, %count
  br i1 %left, label %claim, label %end

claim:
  %kernel_word = load atomic i64, ptr %kernel_at acquire, align 8
  %block = load atomic i64, ptr %block_at acquire, align 8
  %stride = load atomic i64, ptr %stride_at acquire, align 8
  %mode = load atomic i64, ptr %mode_at acquire, align 8
  %behind = sub i64 %count, %back
  %last_left = sub i64 %behind, 1
  %piece = select i1 %from_front, i64 %front, i64 %last_left
  %one = select i1 %from_front, i64 65536, i64 1
  %next = add i64 %old, %one
  %swap = cmpxchg ptr %claim_at, i64 %old, i64 %next acq_rel monotonic, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %look

run:
  call void @jtorch_set_mode(i64 %mode)
  %kernel = inttoptr i64 %kernel_word to ptr
  %way = mul i64 %piece, %stride
  %here_word = add i64 %block, %way
  %here = inttoptr i64 %here_word to ptr
  %code = call i64 %kernel(ptr %here)
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %fail, label %ran

fail:
  %small = and i64 %code, 65535
  %high = shl i64 %piece, 16
  %status = or i64 %high, %small
  %first = atomicrmw umin ptr %status_at, i64 %status monotonic, align 8
  br label %ran

ran:
  %before = atomicrmw add ptr %done_at, i64 1 release, align 8
  br label %look

end:
  ret void
}

define internal ptr @jtorch_worker(ptr %me) {
entry:
  %number_at = getelementptr i64, ptr %me, i64 1
  %last_at = getelementptr i64, ptr %me, i64 2
  %pool = load ptr, ptr %me
  %number = load i64, ptr %number_at
  %last_word = load i64, ptr %last_at
  %first_last = trunc i64 %last_word to i32
  %round_at = getelementptr i64, ptr %pool, i64 ROUND
  %sleepers_at = getelementptr i64, ptr %pool, i64 SLEEPERS
  %allowed_at = getelementptr i64, ptr %pool, i64 ALLOWED
  %syscall_at = getelementptr i64, ptr %pool, i64 SYSCALL
  %mask_at = getelementptr i64, ptr %pool, i64 MASK
  %signals = getelementptr i64, ptr %pool, i64 SIGNALS
  %syscall = load ptr, ptr %syscall_at
  %mask = load ptr, ptr %mask_at
  %masked = call i32 %mask(i32 0, ptr %signals, ptr null)
  br label %idle

idle:
  %last = phi i32 [ %first_last, %entry ], [ %last, %awake ], [ %round, %retire ], [ %round, %work ]
  br label %spin

spin:
  %turn = phi i64 [ 0, %idle ], [ %next_turn, %again ]
  %round = load atomic i32, ptr %round_at acquire, align 8
  %new = icmp ne i32 %round, %last
  br i1 %new, label %look, label %again

again:
  call void PAUSE
  %next_turn = add i64 %turn, 1
  %patient = icmp ult i64 %next_turn, SPINS
  br i1 %patient, label %spin, label %sleep

sleep:
  %sleepers = atomicrmw add ptr %sleepers_at, i64 1 seq_cst, align 8
  %seen = load atomic i32, ptr %round_at seq_cst, align 8
  %still = icmp eq i32 %seen, %last
  br i1 %still, label %wait, label %awake

wait:
  %last_long = zext i32 %last to i64
  %woken = call i64 (i64, ...) %syscall(
    i64 FUTEX, ptr %round_at, i64 128, i64 %last_long, ptr null, ptr null, i64 0)
  br label %awake

awake:
  %fewer = atomicrmw sub ptr %sleepers_at, i64 1 seq_cst, align 8
  br label %idle

look:
  %allowed = load atomic i32, ptr %allowed_at acquire, align 8
  %allowed_long = zext i32 %allowed to i64
  %wanted = icmp slt i64 %number, %allowed_long
  br i1 %wanted, label %work, label %retire

retire:
  %back = call i64 (i64, ...) %syscall(
    i64 FUTEX, ptr %allowed_at, i64 128, i64 %allowed_long, ptr null, ptr null, i64 0)
  br label %idle

work:
  %round_long = zext i32 %round to i64
  call void @jtorch_take(ptr %pool, i64 %round_long, i1 false)
  br label %idle
}

; As many workers as `wanted`, as far as the system makes them.
define internal void @jtorch_start(ptr %pool, i64 %wanted) {
entry:
  %thread = alloca i64
  %started_at = getelementptr i64, ptr %pool, i64 STARTED
  %round_at = getelementptr i64, ptr %pool, i64 ROUND
  %create_at = getelementptr i64, ptr %pool, i64 CREATE
  %detach_at = getelementptr i64, ptr %pool, i64 DETACH
  %create = load ptr, ptr %create_at
  %detach = load ptr, ptr %detach_at
  br label %next

next:
  %started = load i64, ptr %started_at
  %enough = icmp sge i64 %started, %wanted
  br i1 %enough, label %end, label %make

make:
  %number = add i64 %started, 1
  %words = mul i64 %number, WORKER_WORDS
  %place = add i64 %words, WORKERS
  %me = getelementptr i64, ptr %pool, i64 %place
  %number_at = getelementptr i64, ptr %me, i64 1
  %last_at = getelementptr i64, ptr %me, i64 2
  %round = load atomic i32, ptr %round_at monotonic, align 8
  %round_long = zext i32 %round to i64
  store ptr %pool, ptr %me
  store i64 %number, ptr %number_at
  store i64 %round_long, ptr %last_at
  %failed = call i32 %create(ptr %thread, ptr null, ptr @jtorch_worker, ptr %me)
  %refused = icmp ne i32 %failed, 0
  br i1 %refused, label %end, label %made

made:
  %made_thread = load i64, ptr %thread
  %detached = call i32 %detach(i64 %made_thread)
  store i64 %number, ptr %started_at
  br label %next

end:
  ret void
}

define internal i64 @jtorch_now(ptr %pool) {
  %time = alloca [2 x i64]
  %clock_at = getelementptr i64, ptr %pool, i64 CLOCK
  %clock = load ptr, ptr %clock_at
  %failed = call i32 %clock(i32 1, ptr %time)
  %rest_at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

define internal i64 @jtorch_parallel(ptr %pool, i64 %kernel, i64 %block, i64 %count, i64 %stride) {
entry:
  %cell_at = getelementptr i64, ptr %pool, i64 CELL
  %busy_at = getelementptr i64, ptr %pool, i64 BUSY
  %skipped_at = getelementptr i64, ptr %pool, i64 SKIPPED
  %penalty_at = getelementptr i64, ptr %pool, i64 PENALTY
  %cell = load ptr, ptr %cell_at
  %limit = load atomic i64, ptr %cell monotonic, align 8
  %few = icmp slt i64 %limit, 2
  %many = icmp ugt i64 %count, 65535
  %nobody = or i1 %few, %many
  br i1 %nobody, label %alone, label %try

try:
  %swap = cmpxchg ptr %busy_at, i64 0, i64 1 acquire monotonic, align 8
  %ours = extractvalue { i64, i1 } %swap, 1
  br i1 %ours, label %ask, label %alone

ask:
  %skipped = load i64, ptr %skipped_at
  %skip = icmp sgt i64 %skipped, 0
  br i1 %skip, label %skipping, label %post

skipping:
  %fewer = sub i64 %skipped, 1
  store i64 %fewer, ptr %skipped_at
  store atomic i64 0, ptr %busy_at release, align 8
  br label %alone

post:
  %allowed_at = getelementptr i64, ptr %pool, i64 ALLOWED
  %syscall_at = getelementptr i64, ptr %pool, i64 SYSCALL
  %syscall = load ptr, ptr %syscall_at
  %small_limit = call i64 @llvm.smin.i64(i64 %limit, i64 2147483647)
  %allowed = trunc i64 %small_limit to i32
  %allowed_before = load atomic i32, ptr %allowed_at monotonic, align 8
  store atomic i32 %allowed, ptr %allowed_at release, align 8
  %more_allowed = icmp sgt i32 %allowed, %allowed_before
  %fewer_allowed = icmp slt i32 %allowed, %allowed_before
  br i1 %more_allowed, label %call_back, label %begin_round

call_back:
  %called = call i64 (i64, ...) %syscall(
    i64 FUTEX, ptr %allowed_at, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  br label %begin_round

begin_round:
  %most = call i64 @llvm.smin.i64(i64 %limit, i64 %count)
  %helpers = sub i64 %most, 1
  %wanted = call i64 @llvm.smin.i64(i64 %helpers, i64 MOST)
  call void @jtorch_start(ptr %pool, i64 %wanted)
  %round_at = getelementptr i64, ptr %pool, i64 ROUND
  %sleepers_at = getelementptr i64, ptr %pool, i64 SLEEPERS
  %claim_at = getelementptr i64, ptr %pool, i64 CLAIM
  %done_at = getelementptr i64, ptr %pool, i64 DONE
  %status_at = getelementptr i64, ptr %pool, i64 STATUS
  %kernel_at = getelementptr i64, ptr %pool, i64 KERNEL
  %block_at = getelementptr i64, ptr %pool, i64 BLOCK
  %count_at = getelementptr i64, ptr %pool, i64 COUNT
  %stride_at = getelementptr i64, ptr %pool, i64 STRIDE
  %before = load atomic i32, ptr %round_at monotonic, align 8
  %round = add i32 %before, 1
  %round_long = zext i32 %round to i64
  %open = shl i64 %round_long, 32
  %closed = or i64 %open, 4294967295
  store atomic i64 %closed, ptr %claim_at seq_cst, align 8
  store atomic i64 %kernel, ptr %kernel_at release, align 8
  store atomic i64 %block, ptr %block_at release, align 8
  store atomic i64 %count, ptr %count_at release, align 8
  store atomic i64 %stride, ptr %stride_at release, align 8
  %mode_at = getelementptr i64, ptr %pool, i64 FLOATS
  %mode = call i64 @jtorch_mode()
  store atomic i64 %mode, ptr %mode_at release, align 8
  store atomic i64 0, ptr %done_at release, align 8
  store atomic i64 -1, ptr %status_at release, align 8
  store atomic i64 %open, ptr %claim_at release, align 8
  store atomic i32 %round, ptr %round_at seq_cst, align 8
  %sleepers = load atomic i64, ptr %sleepers_at seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %wake, label %work

wake:
  %called_up = select i1 %fewer_allowed, i64 MOST, i64 %wanted ; who is not allowed any more goes to sleep apart
  %woken = call i64 (i64, ...) %syscall(
    i64 FUTEX, ptr %round_at, i64 129, i64 %called_up, ptr null, ptr null, i64 0)
  br label %work

work:
  %begin = call i64 @jtorch_now(ptr %pool)
  call void @jtorch_take(ptr %pool, i64 %round_long, i1 true)
  %worked = call i64 @jtorch_now(ptr %pool)
  br label %wait

wait:
  %turn = phi i64 [ 0, %work ], [ %next_turn, %paused ]
  %done = load atomic i64, ptr %done_at acquire, align 8
  %all = icmp eq i64 %done, %count
  br i1 %all, label %over, label %pause

pause:
  call void PAUSE
  %next_turn = add i64 %turn, 1
  %long = icmp ugt i64 %next_turn, SPINS
  br i1 %long, label %yield, label %paused

yield:
  %yield_at = getelementptr i64, ptr %pool, i64 YIELD
  %sched_yield = load ptr, ptr %yield_at
  %yielded = call i32 %sched_yield()
  br label %paused

paused:
  br label %wait

over:
  %ended = call i64 @jtorch_now(ptr %pool)
  ; what the others saved the caller, at the speed of its own pieces, less what it waited for them
  %own = sub i64 %worked, %begin
  %waited = sub i64 %ended, %worked
  %claimed = load atomic i64, ptr %claim_at monotonic, align 8
  %claimed_both = and i64 %claimed, 4294967295
  %own_pieces = lshr i64 %claimed_both, 16
  %others = sub i64 %count, %own_pieces
  %some = call i64 @llvm.smax.i64(i64 %own_pieces, i64 1)
  %of_piece = sdiv i64 %own, %some
  %saved = mul i64 %of_piece, %others
  %gain = sub i64 %saved, %waited
  %balance_at = getelementptr i64, ptr %pool, i64 BALANCE
  %balance = load i64, ptr %balance_at
  %sixteenth = ashr i64 %balance, 4
  %faded = sub i64 %balance, %sixteenth
  %new_balance = add i64 %faded, %gain
  %stalled = icmp slt i64 %new_balance, -100000
  %kept = select i1 %stalled, i64 0, i64 %new_balance
  %penalty = load i64, ptr %penalty_at
  %double = shl i64 %penalty, 1
  %more = call i64 @llvm.smax.i64(i64 %double, i64 16)
  %raised = call i64 @llvm.smin.i64(i64 %more, i64 1024)
  %lowered = lshr i64 %penalty, 1
  %new_penalty = select i1 %stalled, i64 %raised, i64 %lowered
  %new_skipped = select i1 %stalled, i64 %raised, i64 0
  store i64 %kept, ptr %balance_at
  store i64 %new_penalty, ptr %penalty_at
  store i64 %new_skipped, ptr %skipped_at
  %status = load atomic i64, ptr %status_at monotonic, align 8
  store atomic i64 0, ptr %busy_at release, align 8
  %fine = icmp eq i64 %status, -1
  %code = and i64 %status, 65535
  %result = select i1 %fine, i64 0, i64 %code
  ret i64 %result

alone:
  %kernel_ptr = inttoptr i64 %kernel to ptr
  br label %piece

piece:
  %index = phi i64 [ 0, %alone ], [ %next_index, %piece_ran ]
  %here_word = phi i64 [ %block, %alone ], [ %next_here, %piece_ran ]
  %last = icmp sge i64 %index, %count
  br i1 %last, label %finished, label %run_piece

run_piece:
  %here = inttoptr i64 %here_word to ptr
  %piece_code = call i64 %kernel_ptr(ptr %here)
  %wrong = icmp ne i64 %piece_code, 0
  br i1 %wrong, label %failed, label %piece_ran

piece_ran:
  %next_index = add i64 %index, 1
  %next_here = add i64 %here_word, %stride
  br label %piece

failed:
  ret i64 %piece_code

finished:
  ret i64 0
}

MODE_FUNCTIONS
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void DECLARED
