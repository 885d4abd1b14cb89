#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#shared2 = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#smem = #ttg.shared_memory
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, i64, i64, !tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, i64, i64, !tt.ptr<f32>, f32, i32) -> (), sym_name = "fa_fwd", sym_visibility = "public"}> ({
  ^bb0(%q_desc_0: !tt.tensordesc<tensor<64x128xf16, #shared>>, %q_desc_1: i32, %q_desc_2: i32, %q_desc_3: i64, %q_desc_4: i64, %k_desc_0: !tt.tensordesc<tensor<128x128xf16, #shared>>, %k_desc_1: i32, %k_desc_2: i32, %k_desc_3: i64, %k_desc_4: i64, %v_desc_0: !tt.tensordesc<tensor<128x128xf16, #shared>>, %v_desc_1: i32, %v_desc_2: i32, %v_desc_3: i64, %v_desc_4: i64, %o_desc_0: !tt.tensordesc<tensor<64x128xf16, #shared>>, %o_desc_1: i32, %o_desc_2: i32, %o_desc_3: i64, %o_desc_4: i64, %M_0: !tt.ptr<f32>, %sm_scale_0: f32, %L_0: i32):
    %0 = "arith.constant"() <{value = 128 : i32}> : () -> i32
    %1 = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %2 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %3 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
    %4 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
    %5 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
    %6 = "arith.constant"() <{value = 1.44269502 : f32}> : () -> f32
    %7 = "arith.constant"() <{value = true}> : () -> i1
    %8 = "arith.constant"() <{value = false}> : () -> i1
    %9 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
    %10 = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %11 = "arith.cmpi"(%L_0, %0) <{predicate = 5 : i64}> : (i32, i32) -> i1
    "llvm.intr.assume"(%11) <{op_bundle_sizes = array<i32>}> : (i1) -> ()
    %q_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>
    %k_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>
    %v_s_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>
    %qbar_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    %kfull_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %kempty_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %vfull_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %vempty_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    %pp_0 = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%qbar_0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %12 = "ttg.memdesc_index"(%kfull_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%12) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %13 = "ttg.memdesc_index"(%kempty_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%13) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %14 = "ttg.memdesc_index"(%vfull_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%14) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %15 = "ttg.memdesc_index"(%vempty_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%15) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %16 = "ttg.memdesc_index"(%kfull_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%16) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %17 = "ttg.memdesc_index"(%kempty_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%17) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %18 = "ttg.memdesc_index"(%vfull_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%18) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %19 = "ttg.memdesc_index"(%vempty_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%19) <{count = 2 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %20 = "ttg.memdesc_index"(%pp_0, %1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%20) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    %21 = "ttg.memdesc_index"(%pp_0, %2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
    "ttng.init_barrier"(%21) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>) -> ()
    "ttg.warp_specialize"(%o_desc_0, %M_0, %q_s_0, %k_s_0, %v_s_0, %qbar_0, %kfull_0, %kempty_0, %vfull_0, %vempty_0, %sm_scale_0, %L_0, %q_desc_0, %k_desc_0, %v_desc_0) <{partitionNumWarps = array<i32: 4, 1>, requestedRegisters = array<i32: 240, 24>}> ({
      %pm_0 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
      %bh_0 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
      %pm_1 = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
      %pm_2 = "arith.subi"(%pm_1, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %pm_3 = "arith.subi"(%pm_2, %pm_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %n_end_0 = "arith.addi"(%pm_3, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %n_end_1 = "arith.muli"(%n_end_0, %0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %base_0 = "arith.muli"(%bh_0, %L_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %offs_m_0 = "arith.muli"(%pm_3, %0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %offs_m_1 = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %offs_m_2 = "tt.splat"(%offs_m_0) : (i32) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %offs_m_3 = "arith.addi"(%offs_m_2, %offs_m_1) <{overflowFlags = #arith.overflow<none>}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
      %offs_n_0 = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}> : () -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
      %qk_scale_0 = "arith.mulf"(%sm_scale_0, %6) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "ttng.wait_barrier"(%qbar_0, %1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %q_0 = "ttg.memdesc_index"(%q_s_0, %1) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
      "ttng.wait_barrier"(%12, %1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %S_0 = "ttg.memdesc_index"(%k_s_0, %1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
      %S_1 = "ttg.memdesc_trans"(%S_0) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
      %S_2 = "ttng.warp_group_dot"(%q_0, %S_1, %5, %8) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
      %S_3 = "ttng.warp_group_dot_wait"(%S_2) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      "ttng.arrive_barrier"(%13, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
      %S_4 = "tt.expand_dims"(%offs_m_3) <{axis = 1 : i32}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xi32, #mma>
      %S_5 = "tt.expand_dims"(%offs_n_0) <{axis = 0 : i32}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<1x128xi32, #mma>
      %S_6 = "tt.broadcast"(%S_4) : (tensor<64x1xi32, #mma>) -> tensor<64x128xi32, #mma>
      %S_7 = "tt.broadcast"(%S_5) : (tensor<1x128xi32, #mma>) -> tensor<64x128xi32, #mma>
      %S_8 = "arith.cmpi"(%S_6, %S_7) <{predicate = 5 : i64}> : (tensor<64x128xi32, #mma>, tensor<64x128xi32, #mma>) -> tensor<64x128xi1, #mma>
      %S_9 = "arith.select"(%S_8, %S_3, %9) : (tensor<64x128xi1, #mma>, tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %m_new_0 = "tt.reduce"(%S_9) <{axis = 1 : i32}> ({
      ^bb1(%m_new_1: f32, %m_new_2: f32):
        %m_new_3 = "arith.maxnumf"(%m_new_1, %m_new_2) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "tt.reduce.return"(%m_new_3) : (f32) -> ()
      }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_4 = "tt.splat"(%qk_scale_0) : (f32) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_5 = "arith.mulf"(%m_new_0, %m_new_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_new_6 = "arith.maxnumf"(%m_new_5, %3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %alpha_0 = "arith.subf"(%3, %m_new_6) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %alpha_1 = "math.exp2"(%alpha_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %p_0 = "tt.splat"(%qk_scale_0) : (f32) -> tensor<64x128xf32, #mma>
      %p_1 = "arith.mulf"(%S_9, %p_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_2 = "tt.expand_dims"(%m_new_6) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
      %p_3 = "tt.broadcast"(%p_2) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_4 = "arith.subf"(%p_1, %p_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %p_5 = "math.exp2"(%p_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %l_i_0 = "arith.mulf"(%alpha_1, %4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %l_i_1 = "tt.reduce"(%p_5) <{axis = 1 : i32}> ({
      ^bb2(%l_i_2: f32, %l_i_3: f32):
        %l_i_4 = "arith.addf"(%l_i_2, %l_i_3) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "tt.reduce.return"(%l_i_4) : (f32) -> ()
      }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %l_i_5 = "arith.addf"(%l_i_0, %l_i_1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %pd_0 = "arith.truncf"(%p_5) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
      %pd_1 = "ttg.convert_layout"(%pd_0) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
      %n_full_0 = "arith.subi"(%n_end_1, %0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %j_0:5 = "scf.for"(%0, %n_full_0, %0, %m_new_6, %l_i_5, %5, %pd_1, %2) ({
      ^bb3(%j_1: i32, %m_new_7: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %l_i_6: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %22: tensor<64x128xf32, #mma>, %pd_2: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %23: i32):
        %s_0 = "arith.remsi"(%23, %10) : (i32, i32) -> i32
        %ph_0 = "arith.divsi"(%23, %10) : (i32, i32) -> i32
        %ph_1 = "arith.andi"(%ph_0, %2) : (i32, i32) -> i32
        %sp_0 = "arith.subi"(%23, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %sp_1 = "arith.remsi"(%sp_0, %10) : (i32, i32) -> i32
        %php_0 = "arith.divsi"(%sp_0, %10) : (i32, i32) -> i32
        %php_1 = "arith.andi"(%php_0, %2) : (i32, i32) -> i32
        %24 = "ttg.memdesc_index"(%kfull_0, %s_0) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%24, %ph_1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %S_10 = "ttg.memdesc_index"(%k_s_0, %s_0) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %S_11 = "ttg.memdesc_trans"(%S_10) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
        %S_12 = "ttng.warp_group_dot"(%q_0, %S_11, %5, %8) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %25 = "ttg.memdesc_index"(%vfull_0, %sp_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%25, %php_1, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %acc_t_0 = "ttg.memdesc_index"(%v_s_0, %sp_1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %acc_t_1 = "ttng.warp_group_dot"(%pd_2, %acc_t_0, %22, %7) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %S_13 = "ttng.warp_group_dot_wait"(%S_12) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %26 = "ttg.memdesc_index"(%kempty_0, %s_0) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%26, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %m_new_8 = "tt.reduce"(%S_13) <{axis = 1 : i32}> ({
        ^bb4(%m_new_9: f32, %m_new_10: f32):
          %m_new_11 = "arith.maxnumf"(%m_new_9, %m_new_10) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%m_new_11) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_12 = "arith.mulf"(%m_new_8, %m_new_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_13 = "arith.maxnumf"(%m_new_7, %m_new_12) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_2 = "arith.subf"(%m_new_7, %m_new_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_3 = "math.exp2"(%alpha_2) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %p_6 = "arith.mulf"(%S_13, %p_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_7 = "tt.expand_dims"(%m_new_13) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %p_8 = "tt.broadcast"(%p_7) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_9 = "arith.subf"(%p_6, %p_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_10 = "math.exp2"(%p_9) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %l_i_7 = "arith.mulf"(%l_i_6, %alpha_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_8 = "tt.reduce"(%p_10) <{axis = 1 : i32}> ({
        ^bb5(%l_i_9: f32, %l_i_10: f32):
          %l_i_11 = "arith.addf"(%l_i_9, %l_i_10) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%l_i_11) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_12 = "arith.addf"(%l_i_7, %l_i_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_0 = "ttng.warp_group_dot_wait"(%acc_t_1) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %27 = "ttg.memdesc_index"(%vempty_0, %sp_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%27, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %acc_1 = "ttg.convert_layout"(%alpha_3) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_2 = "tt.expand_dims"(%acc_1) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %acc_3 = "tt.broadcast"(%acc_2) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %acc_4 = "arith.mulf"(%acc_0, %acc_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %pd_3 = "arith.truncf"(%p_10) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        %pd_4 = "ttg.convert_layout"(%pd_3) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
        %j_2 = "arith.addi"(%23, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "scf.yield"(%m_new_13, %l_i_12, %acc_4, %pd_4, %j_2) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
      }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
      %n_d_0 = "arith.maxsi"(%n_full_0, %0) : (i32, i32) -> i32
      %j_3:5 = "scf.for"(%n_d_0, %n_end_1, %0, %j_0#0, %j_0#1, %j_0#2, %j_0#3, %j_0#4) ({
      ^bb6(%j_4: i32, %j_5: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %j_6: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %j_7: tensor<64x128xf32, #mma>, %j_8: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %j_9: i32):
        %s_1 = "arith.remsi"(%j_9, %10) : (i32, i32) -> i32
        %ph_2 = "arith.divsi"(%j_9, %10) : (i32, i32) -> i32
        %ph_3 = "arith.andi"(%ph_2, %2) : (i32, i32) -> i32
        %sp_2 = "arith.subi"(%j_9, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %sp_3 = "arith.remsi"(%sp_2, %10) : (i32, i32) -> i32
        %php_2 = "arith.divsi"(%sp_2, %10) : (i32, i32) -> i32
        %php_3 = "arith.andi"(%php_2, %2) : (i32, i32) -> i32
        %28 = "ttg.memdesc_index"(%kfull_0, %s_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%28, %ph_3, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %S_14 = "ttg.memdesc_index"(%k_s_0, %s_1) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %S_15 = "ttg.memdesc_trans"(%S_14) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
        %S_16 = "ttng.warp_group_dot"(%q_0, %S_15, %5, %8) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %29 = "ttg.memdesc_index"(%vfull_0, %sp_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%29, %php_3, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %acc_t_2 = "ttg.memdesc_index"(%v_s_0, %sp_3) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %acc_t_3 = "ttng.warp_group_dot"(%j_8, %acc_t_2, %j_7, %7) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %S_17 = "ttng.warp_group_dot_wait"(%S_16) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %30 = "ttg.memdesc_index"(%kempty_0, %s_1) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%30, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %S_18 = "tt.splat"(%j_4) : (i32) -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
        %S_19 = "arith.addi"(%S_18, %offs_n_0) <{overflowFlags = #arith.overflow<none>}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>, tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
        %S_20 = "tt.expand_dims"(%S_19) <{axis = 0 : i32}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<1x128xi32, #mma>
        %S_21 = "tt.broadcast"(%S_20) : (tensor<1x128xi32, #mma>) -> tensor<64x128xi32, #mma>
        %S_22 = "arith.cmpi"(%S_6, %S_21) <{predicate = 5 : i64}> : (tensor<64x128xi32, #mma>, tensor<64x128xi32, #mma>) -> tensor<64x128xi1, #mma>
        %S_23 = "arith.select"(%S_22, %S_17, %9) : (tensor<64x128xi1, #mma>, tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %m_new_14 = "tt.reduce"(%S_23) <{axis = 1 : i32}> ({
        ^bb7(%m_new_15: f32, %m_new_16: f32):
          %m_new_17 = "arith.maxnumf"(%m_new_15, %m_new_16) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%m_new_17) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_18 = "arith.mulf"(%m_new_14, %m_new_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_19 = "arith.maxnumf"(%j_5, %m_new_18) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_4 = "arith.subf"(%j_5, %m_new_19) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_5 = "math.exp2"(%alpha_4) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %p_11 = "arith.mulf"(%S_23, %p_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_12 = "tt.expand_dims"(%m_new_19) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %p_13 = "tt.broadcast"(%p_12) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_14 = "arith.subf"(%p_11, %p_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_15 = "math.exp2"(%p_14) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %l_i_13 = "arith.mulf"(%j_6, %alpha_5) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_14 = "tt.reduce"(%p_15) <{axis = 1 : i32}> ({
        ^bb8(%l_i_15: f32, %l_i_16: f32):
          %l_i_17 = "arith.addf"(%l_i_15, %l_i_16) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%l_i_17) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_18 = "arith.addf"(%l_i_13, %l_i_14) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_5 = "ttng.warp_group_dot_wait"(%acc_t_3) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %31 = "ttg.memdesc_index"(%vempty_0, %sp_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%31, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %acc_6 = "ttg.convert_layout"(%alpha_5) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_7 = "tt.expand_dims"(%acc_6) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %acc_8 = "tt.broadcast"(%acc_7) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %acc_9 = "arith.mulf"(%acc_5, %acc_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %pd_5 = "arith.truncf"(%p_15) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        %pd_6 = "ttg.convert_layout"(%pd_5) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
        %j_10 = "arith.addi"(%j_9, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "scf.yield"(%m_new_19, %l_i_18, %acc_9, %pd_6, %j_10) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
      }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
      %sp_4 = "arith.subi"(%j_3#4, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      %sp_5 = "arith.remsi"(%sp_4, %10) : (i32, i32) -> i32
      %php_4 = "arith.divsi"(%sp_4, %10) : (i32, i32) -> i32
      %php_5 = "arith.andi"(%php_4, %2) : (i32, i32) -> i32
      %32 = "ttg.memdesc_index"(%vfull_0, %sp_5) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      "ttng.wait_barrier"(%32, %php_5, %7) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
      %acc_t_4 = "ttg.memdesc_index"(%v_s_0, %sp_5) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
      %acc_t_5 = "ttng.warp_group_dot"(%j_3#3, %acc_t_4, %j_3#2, %7) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
      %acc_10 = "ttng.warp_group_dot_wait"(%acc_t_5) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %33 = "ttg.memdesc_index"(%vempty_0, %sp_5) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
      "ttng.arrive_barrier"(%33, %7) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
      %acc_11 = "ttg.convert_layout"(%j_3#1) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %acc_12 = "tt.expand_dims"(%acc_11) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
      %acc_13 = "tt.broadcast"(%acc_12) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
      %acc_14 = "arith.divf"(%acc_10, %acc_13) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
      %m_i_0 = "math.log2"(%j_3#1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %m_i_1 = "arith.addf"(%j_3#0, %m_i_0) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
      %34 = "tt.addptr"(%M_0, %base_0) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
      %35 = "tt.splat"(%34) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
      %36 = "tt.addptr"(%35, %offs_m_3) : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
      "tt.store"(%36, %m_i_1) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> ()
      %37 = "arith.truncf"(%acc_14) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
      "ttg.local_store"(%37, %q_0) : (tensor<64x128xf16, #mma>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
      "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
      %38 = "arith.addi"(%base_0, %offs_m_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
      "ttng.async_tma_copy_local_to_global"(%o_desc_0, %38, %1, %q_0) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
      "ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()
      "ttg.warp_yield"() : () -> ()
    }, {
      "ttg.warp_specialize.partitions"() ({
      ^bb9(%39: !tt.tensordesc<tensor<64x128xf16, #shared>>, %40: !tt.ptr<f32>, %41: !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, %42: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %43: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %44: !ttg.memdesc<1xi64, #shared1, #smem, mutable>, %45: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %46: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %47: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %48: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %49: f32, %50: i32, %51: !tt.tensordesc<tensor<64x128xf16, #shared>>, %52: !tt.tensordesc<tensor<128x128xf16, #shared>>, %53: !tt.tensordesc<tensor<128x128xf16, #shared>>):
        %54 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %55 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
        %56 = "arith.constant"() <{value = false}> : () -> i1
        %57 = "arith.constant"() <{value = true}> : () -> i1
        %58 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %qk_scale_1 = "arith.constant"() <{value = 1.44269502 : f32}> : () -> f32
        %59 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x128xf32, #mma>}> : () -> tensor<64x128xf32, #mma>
        %l_i_19 = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_i_2 = "arith.constant"() <{value = dense<0xFF800000> : tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>}> : () -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %60 = "arith.constant"() <{value = 64 : i32}> : () -> i32
        %61 = "arith.constant"() <{value = 128 : i32}> : () -> i32
        %62 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %pm_4 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
        %bh_1 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
        %pm_5 = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
        %pm_6 = "arith.subi"(%pm_5, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %pm_7 = "arith.subi"(%pm_6, %pm_4) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %n_end_2 = "arith.addi"(%pm_7, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %n_end_3 = "arith.muli"(%n_end_2, %61) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %base_1 = "arith.muli"(%bh_1, %50) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_4 = "arith.muli"(%pm_7, %61) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_5 = "arith.addi"(%offs_m_4, %60) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %offs_m_6 = "tt.make_range"() <{end = 64 : i32, start = 0 : i32}> : () -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %offs_m_7 = "tt.splat"(%offs_m_5) : (i32) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %offs_m_8 = "arith.addi"(%offs_m_7, %offs_m_6) <{overflowFlags = #arith.overflow<none>}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
        %offs_n_1 = "tt.make_range"() <{end = 128 : i32, start = 0 : i32}> : () -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
        %qk_scale_2 = "arith.mulf"(%49, %qk_scale_1) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
        "ttng.wait_barrier"(%44, %58, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %q_1 = "ttg.memdesc_index"(%41, %62) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        %63 = "ttg.memdesc_index"(%45, %58) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%63, %58, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %S_24 = "ttg.memdesc_index"(%42, %58) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %S_25 = "ttg.memdesc_trans"(%S_24) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
        %S_26 = "ttng.warp_group_dot"(%q_1, %S_25, %59, %56) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %S_27 = "ttng.warp_group_dot_wait"(%S_26) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %64 = "ttg.memdesc_index"(%46, %58) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%64, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %S_28 = "tt.expand_dims"(%offs_m_8) <{axis = 1 : i32}> : (tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xi32, #mma>
        %S_29 = "tt.expand_dims"(%offs_n_1) <{axis = 0 : i32}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<1x128xi32, #mma>
        %S_30 = "tt.broadcast"(%S_28) : (tensor<64x1xi32, #mma>) -> tensor<64x128xi32, #mma>
        %S_31 = "tt.broadcast"(%S_29) : (tensor<1x128xi32, #mma>) -> tensor<64x128xi32, #mma>
        %S_32 = "arith.cmpi"(%S_30, %S_31) <{predicate = 5 : i64}> : (tensor<64x128xi32, #mma>, tensor<64x128xi32, #mma>) -> tensor<64x128xi1, #mma>
        %S_33 = "arith.select"(%S_32, %S_27, %55) : (tensor<64x128xi1, #mma>, tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %m_new_20 = "tt.reduce"(%S_33) <{axis = 1 : i32}> ({
        ^bb10(%m_new_21: f32, %m_new_22: f32):
          %m_new_23 = "arith.maxnumf"(%m_new_21, %m_new_22) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%m_new_23) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_24 = "tt.splat"(%qk_scale_2) : (f32) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_25 = "arith.mulf"(%m_new_20, %m_new_24) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_new_26 = "arith.maxnumf"(%m_new_25, %m_i_2) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_6 = "arith.subf"(%m_i_2, %m_new_26) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %alpha_7 = "math.exp2"(%alpha_6) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %p_16 = "tt.splat"(%qk_scale_2) : (f32) -> tensor<64x128xf32, #mma>
        %p_17 = "arith.mulf"(%S_33, %p_16) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_18 = "tt.expand_dims"(%m_new_26) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %p_19 = "tt.broadcast"(%p_18) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_20 = "arith.subf"(%p_17, %p_19) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %p_21 = "math.exp2"(%p_20) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %l_i_20 = "arith.mulf"(%alpha_7, %l_i_19) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_21 = "tt.reduce"(%p_21) <{axis = 1 : i32}> ({
        ^bb11(%l_i_22: f32, %l_i_23: f32):
          %l_i_24 = "arith.addf"(%l_i_22, %l_i_23) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
          "tt.reduce.return"(%l_i_24) : (f32) -> ()
        }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %l_i_25 = "arith.addf"(%l_i_20, %l_i_21) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %pd_7 = "arith.truncf"(%p_21) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        %pd_8 = "ttg.convert_layout"(%pd_7) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
        %n_full_1 = "arith.subi"(%n_end_3, %61) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %j_11:5 = "scf.for"(%61, %n_full_1, %61, %m_new_26, %l_i_25, %59, %pd_8, %62) ({
        ^bb12(%j_12: i32, %m_new_27: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %l_i_26: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %65: tensor<64x128xf32, #mma>, %pd_9: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %66: i32):
          %s_2 = "arith.remsi"(%66, %54) : (i32, i32) -> i32
          %ph_4 = "arith.divsi"(%66, %54) : (i32, i32) -> i32
          %ph_5 = "arith.andi"(%ph_4, %62) : (i32, i32) -> i32
          %sp_6 = "arith.subi"(%66, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %sp_7 = "arith.remsi"(%sp_6, %54) : (i32, i32) -> i32
          %php_6 = "arith.divsi"(%sp_6, %54) : (i32, i32) -> i32
          %php_7 = "arith.andi"(%php_6, %62) : (i32, i32) -> i32
          %67 = "ttg.memdesc_index"(%45, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%67, %ph_5, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %S_34 = "ttg.memdesc_index"(%42, %s_2) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %S_35 = "ttg.memdesc_trans"(%S_34) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
          %S_36 = "ttng.warp_group_dot"(%q_1, %S_35, %59, %56) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          %68 = "ttg.memdesc_index"(%47, %sp_7) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%68, %php_7, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %acc_t_6 = "ttg.memdesc_index"(%43, %sp_7) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %acc_t_7 = "ttng.warp_group_dot"(%pd_9, %acc_t_6, %65, %57) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          %S_37 = "ttng.warp_group_dot_wait"(%S_36) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %69 = "ttg.memdesc_index"(%46, %s_2) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%69, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %m_new_28 = "tt.reduce"(%S_37) <{axis = 1 : i32}> ({
          ^bb13(%m_new_29: f32, %m_new_30: f32):
            %m_new_31 = "arith.maxnumf"(%m_new_29, %m_new_30) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%m_new_31) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_32 = "arith.mulf"(%m_new_28, %m_new_24) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_33 = "arith.maxnumf"(%m_new_27, %m_new_32) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_8 = "arith.subf"(%m_new_27, %m_new_33) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_9 = "math.exp2"(%alpha_8) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %p_22 = "arith.mulf"(%S_37, %p_16) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_23 = "tt.expand_dims"(%m_new_33) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %p_24 = "tt.broadcast"(%p_23) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_25 = "arith.subf"(%p_22, %p_24) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_26 = "math.exp2"(%p_25) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %l_i_27 = "arith.mulf"(%l_i_26, %alpha_9) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_28 = "tt.reduce"(%p_26) <{axis = 1 : i32}> ({
          ^bb14(%l_i_29: f32, %l_i_30: f32):
            %l_i_31 = "arith.addf"(%l_i_29, %l_i_30) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%l_i_31) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_32 = "arith.addf"(%l_i_27, %l_i_28) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_15 = "ttng.warp_group_dot_wait"(%acc_t_7) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %70 = "ttg.memdesc_index"(%48, %sp_7) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%70, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %acc_16 = "ttg.convert_layout"(%alpha_9) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_17 = "tt.expand_dims"(%acc_16) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %acc_18 = "tt.broadcast"(%acc_17) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %acc_19 = "arith.mulf"(%acc_15, %acc_18) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %pd_10 = "arith.truncf"(%p_26) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
          %pd_11 = "ttg.convert_layout"(%pd_10) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
          %j_13 = "arith.addi"(%66, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%m_new_33, %l_i_32, %acc_19, %pd_11, %j_13) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
        }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
        %n_d_1 = "arith.maxsi"(%n_full_1, %61) : (i32, i32) -> i32
        %j_14:5 = "scf.for"(%n_d_1, %n_end_3, %61, %j_11#0, %j_11#1, %j_11#2, %j_11#3, %j_11#4) ({
        ^bb15(%j_15: i32, %j_16: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %j_17: tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, %j_18: tensor<64x128xf32, #mma>, %j_19: tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, %j_20: i32):
          %s_3 = "arith.remsi"(%j_20, %54) : (i32, i32) -> i32
          %ph_6 = "arith.divsi"(%j_20, %54) : (i32, i32) -> i32
          %ph_7 = "arith.andi"(%ph_6, %62) : (i32, i32) -> i32
          %sp_8 = "arith.subi"(%j_20, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %sp_9 = "arith.remsi"(%sp_8, %54) : (i32, i32) -> i32
          %php_8 = "arith.divsi"(%sp_8, %54) : (i32, i32) -> i32
          %php_9 = "arith.andi"(%php_8, %62) : (i32, i32) -> i32
          %71 = "ttg.memdesc_index"(%45, %s_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%71, %ph_7, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %S_38 = "ttg.memdesc_index"(%42, %s_3) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %S_39 = "ttg.memdesc_trans"(%S_38) <{order = array<i32: 1, 0>}> : (!ttg.memdesc<128x128xf16, #shared, #smem, mutable>) -> !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>
          %S_40 = "ttng.warp_group_dot"(%q_1, %S_39, %59, %56) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared2, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          %72 = "ttg.memdesc_index"(%47, %sp_9) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%72, %php_9, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %acc_t_8 = "ttg.memdesc_index"(%43, %sp_9) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          %acc_t_9 = "ttng.warp_group_dot"(%j_19, %acc_t_8, %j_18, %57) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
          %S_41 = "ttng.warp_group_dot_wait"(%S_40) <{pendings = 1 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %73 = "ttg.memdesc_index"(%46, %s_3) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%73, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %S_42 = "tt.splat"(%j_15) : (i32) -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
          %S_43 = "arith.addi"(%S_42, %offs_n_1) <{overflowFlags = #arith.overflow<none>}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>, tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>
          %S_44 = "tt.expand_dims"(%S_43) <{axis = 0 : i32}> : (tensor<128xi32, #ttg.slice<{dim = 0, parent = #mma}>>) -> tensor<1x128xi32, #mma>
          %S_45 = "tt.broadcast"(%S_44) : (tensor<1x128xi32, #mma>) -> tensor<64x128xi32, #mma>
          %S_46 = "arith.cmpi"(%S_30, %S_45) <{predicate = 5 : i64}> : (tensor<64x128xi32, #mma>, tensor<64x128xi32, #mma>) -> tensor<64x128xi1, #mma>
          %S_47 = "arith.select"(%S_46, %S_41, %55) : (tensor<64x128xi1, #mma>, tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %m_new_34 = "tt.reduce"(%S_47) <{axis = 1 : i32}> ({
          ^bb16(%m_new_35: f32, %m_new_36: f32):
            %m_new_37 = "arith.maxnumf"(%m_new_35, %m_new_36) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%m_new_37) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_38 = "arith.mulf"(%m_new_34, %m_new_24) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %m_new_39 = "arith.maxnumf"(%j_16, %m_new_38) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_10 = "arith.subf"(%j_16, %m_new_39) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %alpha_11 = "math.exp2"(%alpha_10) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %p_27 = "arith.mulf"(%S_47, %p_16) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_28 = "tt.expand_dims"(%m_new_39) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %p_29 = "tt.broadcast"(%p_28) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_30 = "arith.subf"(%p_27, %p_29) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %p_31 = "math.exp2"(%p_30) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %l_i_33 = "arith.mulf"(%j_17, %alpha_11) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_34 = "tt.reduce"(%p_31) <{axis = 1 : i32}> ({
          ^bb17(%l_i_35: f32, %l_i_36: f32):
            %l_i_37 = "arith.addf"(%l_i_35, %l_i_36) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
            "tt.reduce.return"(%l_i_37) : (f32) -> ()
          }) : (tensor<64x128xf32, #mma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %l_i_38 = "arith.addf"(%l_i_33, %l_i_34) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_20 = "ttng.warp_group_dot_wait"(%acc_t_9) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %74 = "ttg.memdesc_index"(%48, %sp_9) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.arrive_barrier"(%74, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %acc_21 = "ttg.convert_layout"(%alpha_11) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
          %acc_22 = "tt.expand_dims"(%acc_21) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
          %acc_23 = "tt.broadcast"(%acc_22) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
          %acc_24 = "arith.mulf"(%acc_20, %acc_23) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
          %pd_12 = "arith.truncf"(%p_31) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
          %pd_13 = "ttg.convert_layout"(%pd_12) : (tensor<64x128xf16, #mma>) -> tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
          %j_21 = "arith.addi"(%j_20, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%m_new_39, %l_i_38, %acc_24, %pd_13, %j_21) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> ()
        }) : (i32, i32, i32, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32) -> (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64x128xf32, #mma>, tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, i32)
        %sp_10 = "arith.subi"(%j_14#4, %62) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %sp_11 = "arith.remsi"(%sp_10, %54) : (i32, i32) -> i32
        %php_10 = "arith.divsi"(%sp_10, %54) : (i32, i32) -> i32
        %php_11 = "arith.andi"(%php_10, %62) : (i32, i32) -> i32
        %75 = "ttg.memdesc_index"(%47, %sp_11) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.wait_barrier"(%75, %php_11, %57) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
        %acc_t_10 = "ttg.memdesc_index"(%43, %sp_11) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
        %acc_t_11 = "ttng.warp_group_dot"(%j_14#3, %acc_t_10, %j_14#2, %57) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, tensor<64x128xf32, #mma>, i1) -> tensor<64x128xf32, #mma>
        %acc_25 = "ttng.warp_group_dot_wait"(%acc_t_11) <{pendings = 0 : i32}> : (tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %76 = "ttg.memdesc_index"(%48, %sp_11) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
        "ttng.arrive_barrier"(%76, %57) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %acc_26 = "ttg.convert_layout"(%j_14#1) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %acc_27 = "tt.expand_dims"(%acc_26) <{axis = 1 : i32}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x1xf32, #mma>
        %acc_28 = "tt.broadcast"(%acc_27) : (tensor<64x1xf32, #mma>) -> tensor<64x128xf32, #mma>
        %acc_29 = "arith.divf"(%acc_25, %acc_28) <{fastmath = #arith.fastmath<none>}> : (tensor<64x128xf32, #mma>, tensor<64x128xf32, #mma>) -> tensor<64x128xf32, #mma>
        %m_i_3 = "math.log2"(%j_14#1) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %m_i_4 = "arith.addf"(%j_14#0, %m_i_3) <{fastmath = #arith.fastmath<none>}> : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>
        %77 = "tt.addptr"(%40, %base_1) : (!tt.ptr<f32>, i32) -> !tt.ptr<f32>
        %78 = "tt.splat"(%77) : (!tt.ptr<f32>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
        %79 = "tt.addptr"(%78, %offs_m_8) : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>) -> tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>
        "tt.store"(%79, %m_i_4) <{boundaryCheck = array<i32>, cache = 1 : i32, evict = 1 : i32}> : (tensor<64x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #mma}>>, tensor<64xf32, #ttg.slice<{dim = 1, parent = #mma}>>) -> ()
        %80 = "arith.truncf"(%acc_29) : (tensor<64x128xf32, #mma>) -> tensor<64x128xf16, #mma>
        "ttg.local_store"(%80, %q_1) : (tensor<64x128xf16, #mma>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
        %81 = "arith.addi"(%base_1, %offs_m_4) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %82 = "arith.addi"(%81, %60) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.async_tma_copy_local_to_global"(%39, %82, %58, %q_1) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>) -> ()
        "ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()
        "ttg.warp_return"() : () -> ()
      }, {
      ^bb18(%83: !tt.tensordesc<tensor<64x128xf16, #shared>>, %84: !tt.ptr<f32>, %85: !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, %86: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %87: !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, %88: !ttg.memdesc<1xi64, #shared1, #smem, mutable>, %89: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %90: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %91: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %92: !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, %93: f32, %94: i32, %95: !tt.tensordesc<tensor<64x128xf16, #shared>>, %96: !tt.tensordesc<tensor<128x128xf16, #shared>>, %97: !tt.tensordesc<tensor<128x128xf16, #shared>>):
        %98 = "arith.constant"() <{value = 2 : i32}> : () -> i32
        %99 = "arith.constant"() <{value = 64 : i32}> : () -> i32
        %100 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %101 = "arith.constant"() <{value = true}> : () -> i1
        %102 = "arith.constant"() <{value = 128 : i32}> : () -> i32
        %103 = "arith.constant"() <{value = 1 : i32}> : () -> i32
        %pm_8 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
        %bh_2 = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
        %base_2 = "arith.muli"(%bh_2, %94) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %pm_9 = "tt.get_num_programs"() <{axis = 0 : i32}> : () -> i32
        %pm_10 = "arith.subi"(%pm_9, %103) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %pm_11 = "arith.subi"(%pm_10, %pm_8) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %n_end_4 = "arith.addi"(%pm_11, %103) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %n_end_5 = "arith.muli"(%n_end_4, %102) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "ttng.barrier_expect"(%88, %101) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
        %104 = "arith.muli"(%pm_11, %102) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %105 = "arith.addi"(%base_2, %104) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %106 = "ttg.memdesc_index"(%85, %100) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        "ttng.async_tma_copy_global_to_local"(%95, %105, %100, %88, %106, %101) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>, i1) -> ()
        %107 = "arith.addi"(%105, %99) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        %108 = "ttg.memdesc_index"(%85, %103) : (!ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x128xf16, #shared, #smem, mutable>
        "ttng.async_tma_copy_global_to_local"(%95, %107, %100, %88, %108, %101) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<64x128xf16, #shared, #smem, mutable>, i1) -> ()
        %i_0 = "scf.for"(%100, %n_end_5, %102, %100) ({
        ^bb19(%n_0: i32, %i_1: i32):
          %s_4 = "arith.remsi"(%i_1, %98) : (i32, i32) -> i32
          %ph_8 = "arith.divsi"(%i_1, %98) : (i32, i32) -> i32
          %ph_9 = "arith.andi"(%ph_8, %103) : (i32, i32) -> i32
          %109 = "ttg.memdesc_index"(%90, %s_4) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          %110 = "arith.xori"(%ph_9, %103) : (i32, i32) -> i32
          "ttng.wait_barrier"(%109, %110, %101) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %111 = "ttg.memdesc_index"(%89, %s_4) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.barrier_expect"(%111, %101) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %112 = "arith.addi"(%base_2, %n_0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          %113 = "ttg.memdesc_index"(%86, %s_4) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          "ttng.async_tma_copy_global_to_local"(%96, %112, %100, %111, %113, %101) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, i1) -> ()
          %114 = "ttg.memdesc_index"(%92, %s_4) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.wait_barrier"(%114, %110, %101) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i32, i1) -> ()
          %115 = "ttg.memdesc_index"(%91, %s_4) : (!ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #shared1, #smem, mutable>
          "ttng.barrier_expect"(%115, %101) <{size = 32768 : i32}> : (!ttg.memdesc<1xi64, #shared1, #smem, mutable>, i1) -> ()
          %116 = "ttg.memdesc_index"(%87, %s_4) : (!ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<128x128xf16, #shared, #smem, mutable>
          "ttng.async_tma_copy_global_to_local"(%97, %112, %100, %115, %116, %101) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<128x128xf16, #shared>>, i32, i32, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<128x128xf16, #shared, #smem, mutable>, i1) -> ()
          %i_2 = "arith.addi"(%i_1, %103) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
          "scf.yield"(%i_2) : (i32) -> ()
        }) : (i32, i32, i32, i32) -> i32
        "ttg.warp_return"() : () -> ()
      }) : () -> ()
    }) : (!tt.tensordesc<tensor<64x128xf16, #shared>>, !tt.ptr<f32>, !ttg.memdesc<2x64x128xf16, #shared, #smem, mutable>, !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, !ttg.memdesc<2x128x128xf16, #shared, #smem, mutable>, !ttg.memdesc<1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, !ttg.memdesc<2x1xi64, #shared1, #smem, mutable>, f32, i32, !tt.tensordesc<tensor<64x128xf16, #shared>>, !tt.tensordesc<tensor<128x128xf16, #shared>>, !tt.tensordesc<tensor<128x128xf16, #shared>>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
