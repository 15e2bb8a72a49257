; Leading dimensions are at least 1, as BLAS demands, where a size of 0 makes them 0.
define i64 @jtorch_gemm_DTYPE(ptr %args) {
entry:PLACESLOADS
  %ab = or i64 %m, %n
  %abk = or i64 %ab, %k
  %lds = or i64 %lda, %ldb
  %ldsc = or i64 %lds, %ldc
  %all = or i64 %abk, %ldsc
  %bad = icmp ugt i64 %all, 2147483647
  br i1 %bad, label %too_large, label %sized

too_large:
  ret i64 TOO_LARGE

sized:
  %no_m = icmp eq i64 %m, 0
  %no_n = icmp eq i64 %n, 0
  %no_c = or i1 %no_m, %no_n
  %no_batch = icmp slt i64 %batch, 1
  %empty = or i1 %no_c, %no_batch
  br i1 %empty, label %done, label %prepare

prepare:
  %lda_least = call i64 @llvm.umax.i64(i64 %lda, i64 1)
  %ldb_least = call i64 @llvm.umax.i64(i64 %ldb, i64 1)
  %ldc_least = call i64 @llvm.umax.i64(i64 %ldc, i64 1)
  %alpha_double = bitcast i64 %alpha_bits to double
  %beta_double = bitcast i64 %beta_bits to doubleSCALARS
  %call_function = inttoptr i64 %function to ptrSTORES
  br label %product

product:
  %index = phi i64 [ 0, %prepare ], [ %next, %product ]
  %a_here = phi i64 [ %a, %prepare ], [ %a_next, %product ]
  %b_here = phi i64 [ %b, %prepare ], [ %b_next, %product ]
  %c_here = phi i64 [ %c, %prepare ], [ %c_next, %product ]
  %a_ptr = inttoptr i64 %a_here to ptr
  %b_ptr = inttoptr i64 %b_here to ptr
  %c_ptr = inttoptr i64 %c_here to ptrCALL
  %a_next = add i64 %a_here, %a_stride
  %b_next = add i64 %b_here, %b_stride
  %c_next = add i64 %c_here, %c_stride
  %next = add i64 %index, 1
  %more = icmp slt i64 %next, %batch
  br i1 %more, label %product, label %done

done:
  ret i64 0
}
